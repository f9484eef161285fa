-- Prolongs the liveness key KEYS[1] of this consumer, or makes it (again). ARGV[1]: our token; ARGV[2]: TTL in ms.
-- Replies 'kept', 'made', or the token of the process that holds the key.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  -- A key that somebody made persistent gets its expiry back, too. This needs no memory, so that it works on a full server.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 'kept'
end
if holder then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'made'
