-- Moves members of the delay set KEYS[1] to the stream or list KEYS[2], or those that nobody can decode to KEYS[3].
-- ARGV[1]: how long a member that cannot be moved now is put off in ms; ARGV[2]: the command that writes (XADD, LPUSH); then for
-- each member the member, the index of its target's key (0: nowhere, -1: put off), n, and the n arguments behind the key.
local at, members, i = {}, {}, 3
while i <= #ARGV do
  at[#at + 1], members[#members + 1] = i, ARGV[i]
  i = i + 3 + tonumber(ARGV[i + 2])
end
-- A user who may not remove or put off is refused before anything is written, which would be written again. The embedded server
-- refuses nothing.
if redis.acl_check_cmd and not (redis.acl_check_cmd('ZREM', KEYS[1], '') and redis.acl_check_cmd('ZADD', KEYS[1], '0', '')) then
  return redis.error_reply('NOPERM the user may not run zrem and zadd on "' .. KEYS[1] .. '"')
end
local scores = redis.call('ZMSCORE', KEYS[1], unpack(members))

-- putOff tells what became of a member that is not for this process to move.
local function putOff(member, score)
  local t = redis.call('TIME')
  local now = tonumber(t[1]) * 1000 + tonumber(t[2]) / 1000
  if tonumber(score) > now then return 'gone' end -- another mover has put it off
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[1])), member)
  return 'done'
end

local result, moved = {}, {}
for k, member in ipairs(members) do
  local target, n = tonumber(ARGV[at[k] + 1]), tonumber(ARGV[at[k] + 2])
  if not scores[k] then
    result[k] = 'gone'
  elseif target < 0 then
    result[k] = putOff(member, scores[k])
  else
    local reply = target > 0 and redis.pcall(ARGV[2], KEYS[target], unpack(ARGV, at[k] + 3, at[k] + 2 + n))
    if type(reply) == 'table' and reply.err then
      result[k] = 'ERR ' .. reply.err
    else
      result[k], moved[#moved + 1] = 'done', member
    end
  end
end
-- Behind the writes: a script that stops at a failed one must have removed nothing that was not written.
if #moved > 0 then redis.call('ZREM', KEYS[1], unpack(moved)) end
return result
