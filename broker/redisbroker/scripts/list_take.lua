-- Moves items from the consumers' end of the list KEYS[1] to the in-flight list KEYS[2], while the liveness key KEYS[3] is our
-- own, and notes in the registry KEYS[4] that there is one.
-- ARGV[1]: our token; ARGV[2]: the in-flight list's name in the registry; ARGV[3]: the liveness key's TTL in ms; ARGV[4]: how
-- many items at most; ARGV[5]: how many of them may have outlived an owner; ARGV[6] and
-- ARGV[7]: what such an item begins with and what it holds.
-- Replies with 'taken', 'dead' (the key is not ours) or 'full' (what is next has outlived an owner, and is one too many),
-- and then the items.
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return {'dead'} end
-- This needs no memory, and the server refuses none to a script that has begun to write: a full server can be emptied.
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('SADD', KEYS[4], ARGV[2])
local reply, outlived = {'taken'}, 0
while #reply <= tonumber(ARGV[4]) do
  local item = redis.call('LMOVE', KEYS[1], KEYS[2], 'RIGHT', 'LEFT')
  if not item then break end
  if string.sub(item, 1, 8) == ARGV[6] and string.find(item, ARGV[7], 9, true) then
    outlived = outlived + 1
    if outlived > tonumber(ARGV[5]) then
      redis.call('LMOVE', KEYS[2], KEYS[1], 'LEFT', 'RIGHT')
      if #reply == 1 then reply[1] = 'full' end
      break
    end
  end
  reply[#reply + 1] = item
end
return reply
