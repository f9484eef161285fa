-- Moves members of the delay set KEYS[1] to the stream or list KEYS[2], or those that nobody can decode to KEYS[3].
-- ARGV[1]: how long a member that cannot be moved now is put off in ms; ARGV[2]: the command that writes (XADD, LPUSH); then for
-- each member the member, the index of its target's key (0: nowhere, -1: put off), n, and the n arguments behind the key.
local result, i = {}, 3
while i <= #ARGV do
  local member, target, n = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local status, score = 'gone', redis.call('ZSCORE', KEYS[1], member)
  if score then
    status = 'done'
    if target < 0 then
      local t = redis.call('TIME')
      local now = tonumber(t[1]) * 1000 + tonumber(t[2]) / 1000
      if tonumber(score) <= now then
        redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[1])), member)
      else
        status = 'gone' -- another mover has put it off
      end
    else
      -- Write first: a script that stops at a failed write must not have removed the member.
      local reply = target > 0 and redis.pcall(ARGV[2], KEYS[target], unpack(ARGV, i + 3, i + 2 + n))
      if type(reply) == 'table' and reply.err then
        status = 'ERR ' .. reply.err
      else
        redis.call('ZREM', KEYS[1], member)
      end
    end
  end
  result[#result + 1] = status
  i = i + 3 + n
end
return result
