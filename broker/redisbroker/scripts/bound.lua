-- Stands before every script that buries.

-- bound keeps the newest of a dead letter, any number where last is 0, and returns how many records it removed: all that are
-- too many, but no more than a thousand, so that one that was large before it had a bound shrinks in steps. A dead letter in
-- a list has its newest at the left. What goes wrong here must not undo what was buried, and is found by the next call that
-- only trims.
local function bound(key, list, last)
  if last == 0 then return 0 end
  local n = redis.pcall(list and 'LLEN' or 'XLEN', key)
  if type(n) ~= 'number' or n <= last then return 0 end
  local removed = math.min(n - last, 1000)
  local reply
  if list then
    reply = redis.pcall('LTRIM', key, 0, n - removed - 1)
    if reply.err then return 0 end
    return removed
  end
  reply = redis.pcall('XTRIM', key, 'MAXLEN', '=', n - removed)
  return type(reply) == 'number' and reply or 0
end
