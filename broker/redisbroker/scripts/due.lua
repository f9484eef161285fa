-- Reads what is due in the delay set KEYS[1]: at most ARGV[1] members and ARGV[2] bytes, but at least one.
-- Replies with the time until the next member that is not due in ms (-1 for none), then the members.
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + tonumber(t[2]) / 1000
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.3f', now), 'LIMIT', 0, ARGV[1])
local reply, bytes = {-1}, 0
for i, member in ipairs(due) do
  bytes = bytes + #member
  if i > 1 and bytes > tonumber(ARGV[2]) then break end
  reply[#reply + 1] = member
end
if #reply - 1 < #due or #due == tonumber(ARGV[1]) then
  reply[1] = 0
else
  local next = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.3f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #next > 0 then reply[1] = math.max(math.ceil(tonumber(next[2]) - now), 1) end
end
return reply
