-- Stands before the scripts that claim records.
local function turn(key, mine, ttl)
  local whose = redis.call('GET', key)
  if whose and whose ~= mine then return false end
  redis.call('SET', key, mine, 'PX', ttl)
  return true
end
