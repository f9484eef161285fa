-- Hands entries back, lists what is still pending under this consumer, and removes the consumer once nothing is.
-- ARGV[3]: the consumer that holds what is free; ARGV[4]: the token of the liveness key KEYS[2], which goes before the
-- consumer does; ARGV[5]: how many entries are listed at most; ARGV[6..]: for each entry id, the count that it was listed
-- with, the count and the idle time that it gets.
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
local left = redis.call('XPENDING', stream, group, '-', '+', ARGV[5], me)
if #left == 0 then
  if redis.call('GET', KEYS[2]) == ARGV[4] then redis.call('DEL', KEYS[2]) end
  redis.call('XGROUP', 'DELCONSUMER', stream, group, me)
end
return left
