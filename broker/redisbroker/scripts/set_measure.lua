-- How many messages wait in the delay set KEYS[1], and for how many ms the first of them has been due, 0 where none is.
local waiting, overdue = redis.call('ZCARD', KEYS[1]), 0
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if first[2] then
  local now = redis.call('TIME')
  overdue = math.max(now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(first[2]), 0)
end
return {waiting, overdue}
