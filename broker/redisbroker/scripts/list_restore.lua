-- Puts the newest items of a dead owner's in-flight list KEYS[2] back to the consumers' end of the list KEYS[1], rewritten, and
-- once none is left those of the list beside it (KEYS[3]), which are charged with nothing. KEYS[4] is the owner's liveness
-- key, KEYS[5] our own.
-- ARGV[1]: the owner's token; ARGV[2]: our own; ARGV[3]: our key's TTL in ms; ARGV[4..]: for each item, the newest first, what was
-- read and what is put back.
-- Replies with the number of items put back, or -1 where the owner is not dead or we do not live.
if redis.call('GET', KEYS[4]) == ARGV[1] or redis.call('GET', KEYS[5]) ~= ARGV[2] then return -1 end
redis.call('PEXPIRE', KEYS[5], ARGV[3]) -- needs no memory, and neither does what follows then
local n = 0
for i = 4, #ARGV, 2 do
  -- It may have been put back by another process meanwhile, or a newer one may have come.
  if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[i] then break end
  redis.call('RPUSH', KEYS[1], ARGV[i + 1])
  redis.call('LPOP', KEYS[2])
  n = n + 1
end
if redis.call('LLEN', KEYS[2]) == 0 then
  while redis.call('LMOVE', KEYS[3], KEYS[1], 'LEFT', 'RIGHT') do n = n + 1 end
end
return n
