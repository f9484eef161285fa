-- Adds messages to the delay set KEYS[1], due by the server's clock. ARGV: for each its delay in ms, and its member.
-- Where the set expires so long after its last due time, it still does.
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.ceil(tonumber(t[2]) / 1000)
local left, last = redis.call('PTTL', KEYS[1]), 0
if left >= 0 then last = tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]) end
local result, expires = {}, now + left
for i = 1, #ARGV, 2 do
  local due = now + tonumber(ARGV[i])
  local reply, status = redis.pcall('ZADD', KEYS[1], string.format('%.0f', due), ARGV[i + 1]), 'done'
  if type(reply) == 'table' and reply.err then
    status = 'ERR ' .. reply.err
  elseif left >= 0 and due > last then
    expires = expires + due - last
    last = due
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', expires))
  end
  result[#result + 1] = status
end
return result
