-- Puts messages into the delay set KEYS[2], due by the server's clock, and acknowledges their entries.
-- ARGV[3]: how long the set outlives its last due time in ms, 0 for ever; ARGV[4..]: for each entry id, count, delay in
-- ms, member. The last element of the reply is the server's time in ms.
local ttl, result, i = tonumber(ARGV[3]), {}, 4
local now = now_ms()
while i <= #ARGV do
  local id, count, delay, member = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local status = fence(id, count)
  if not status then
    local due = now + delay
    local left = redis.call('PTTL', KEYS[2])
    status = failed(redis.pcall('ZADD', KEYS[2], string.format('%.0f', due), member))
    if not status then
      if ttl > 0 then
        -- A key that stood without expiry keeps none unless it is new: members that were added for ever stay for ever.
        if left == -2 or (left >= 0 and due + ttl > now + left) then
          redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', due + ttl))
        end
      elseif left >= 0 then
        redis.call('PERSIST', KEYS[2])
      end
      redis.call('XACK', stream, group, id)
      status = 'done'
    end
  end
  result[#result + 1] = status
  i = i + 4
end
return result
