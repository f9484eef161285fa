-- Takes an owner that holds nothing out of the registry KEYS[1]. KEYS[2] and KEYS[3] are its lists, KEYS[4] its liveness key,
-- KEYS[5] its numbers. ARGV[1]: its name; ARGV[2]: its token; ARGV[3]: '1' where the owner itself does it, which goes on with another list.
-- Replies with the number of names removed.
local own = ARGV[3] == '1'
if not own and redis.call('GET', KEYS[4]) == ARGV[2] then return 0 end
if redis.call('LLEN', KEYS[2]) + redis.call('LLEN', KEYS[3]) > 0 then return 0 end
if not own then redis.call('DEL', KEYS[5]) end
return redis.call('SREM', KEYS[1], ARGV[1])
