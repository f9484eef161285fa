-- How many items of a reliable list are in flight: those of all owners in the registry KEYS[1]. ARGV[1] and [2]: what stands
-- before a name of the registry in the in-flight list's key and in that of the list beside it.
local n = 0
for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  n = n + redis.call('LLEN', ARGV[1] .. name) + redis.call('LLEN', ARGV[2] .. name)
end
return n
