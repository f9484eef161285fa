-- Looks which owners in the registry KEYS[1] are dead: their liveness key does not hold their token. KEYS[2] is our own key,
-- KEYS[3] keeps every other process from judging the same list within the same second.
-- ARGV[1]: our token; ARGV[2]: how long the other processes keep off in ms; ARGV[3]: what stands before a consumer's name in its
-- liveness key; ARGV[4] and [5]: what stands before a name of the registry in the in-flight list's key and in that of the list
-- beside it.
-- Replies with nil where another process judges, else with [name, how many items it holds] of every dead one.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return false end
if not redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[2]) then return false end
local dead = {}
for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local consumer, token = string.match(name, '^([^:]*):([^:]*)')
  if consumer and redis.call('GET', ARGV[3] .. consumer) ~= token then
    dead[#dead + 1] = {name, redis.call('LLEN', ARGV[4] .. name) + redis.call('LLEN', ARGV[5] .. name)}
  end
end
return dead
