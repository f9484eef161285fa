-- Returns everything that is in flight to the consumers' end of the list KEYS[1], the oldest at the very end, and takes this
-- process out of the registry KEYS[3], with its liveness key KEYS[2] and the numbers KEYS[4]. KEYS[5..]: the in-flight lists,
-- the newest first, each followed by the one beside it.
-- ARGV[1]: our token; ARGV[2]: '1' where an item may still come into flight, so that the registry keeps the names; ARGV[3..]: the
-- names in the registry.
redis.call('DEL', KEYS[4]) -- needs no memory, and the server refuses none to what follows then
local n = 0
for i = 5, #KEYS do
  while redis.call('LMOVE', KEYS[i], KEYS[1], 'LEFT', 'RIGHT') do n = n + 1 end
end
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
if ARGV[2] ~= '1' then redis.call('SREM', KEYS[3], unpack(ARGV, 3)) end
return n
