-- Hands entries back, lists what is still pending under this consumer, and removes the consumer once nothing is.
-- ARGV[3]: the consumer that holds what is free; ARGV[4]: the token of the liveness key KEYS[2], which goes before the
-- consumer does; ARGV[5]: how many entries are listed at most, for the next call to hand back; ARGV[6..]: for each entry
-- id, the count that it was listed with, the count and the idle time that it gets.
-- Replies with id, consumer, idle time and count of what is listed.
for i = 6, #ARGV, 4 do
  local id = ARGV[i]
  if not fence(id, ARGV[i + 1]) then
    if #redis.call('XRANGE', stream, id, id) == 0 then
      redis.call('XACK', stream, group, id)
    else
      redis.call('XCLAIM', stream, group, ARGV[3], 0, id, 'IDLE', ARGV[i + 3], 'RETRYCOUNT', ARGV[i + 2], 'JUSTID')
    end
  end
end
-- Redis 8.4 orders what is pending by idle time, and looks for a place from the newest on: the more is pending, the longer
-- that takes for each entry.
local pending = redis.call('XPENDING', stream, group)[1]
local most = math.min(tonumber(ARGV[5]), math.ceil(1000000 / (pending + 1)))
local left = redis.call('XPENDING', stream, group, '-', '+', most, me)
if #left == 0 then
  if redis.call('GET', KEYS[2]) == ARGV[4] then redis.call('DEL', KEYS[2]) end
  redis.call('XGROUP', 'DELCONSUMER', stream, group, me)
end
return left
