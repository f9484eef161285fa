-- Looks which of the owners ARGV[8..] are dead: their liveness key is gone. KEYS[2] is our own key, KEYS[3] keeps every
-- other process from judging the same group within the same second.
-- ARGV[3]: our token; ARGV[4]: what stands before a consumer's name in its key; ARGV[5]: the idle time in ms from which
-- an entry of a dead owner may be taken; ARGV[6]: the consumer that holds what is free; ARGV[7]: how long the other
-- processes keep off in ms.
-- Replies with nil where another process judges, else with [owner, whether it has entries to take, [id, idle time, count,
-- id, idle time, count ...]] of every dead one.
local dead = {}
if redis.call('GET', KEYS[2]) ~= ARGV[3] then return false end
if not redis.call('SET', KEYS[3], me, 'NX', 'PX', ARGV[7]) then return false end
for i = 8, #ARGV do
  local owner = ARGV[i]
  if owner == ARGV[6] or redis.call('EXISTS', ARGV[4] .. owner) == 0 then
    local listed, ids, takeable = redis.call('XPENDING', stream, group, '-', '+', 200, owner), {}, 0
    for _, p in ipairs(listed) do
      ids[#ids + 1], ids[#ids + 2], ids[#ids + 3] = p[1], tonumber(p[3]), tonumber(p[4])
      if tonumber(p[3]) >= tonumber(ARGV[5]) then takeable = 1 end
    end
    if takeable == 0 and #listed == 200 then
      takeable = #redis.call('XPENDING', stream, group, 'IDLE', ARGV[5], '-', '+', 1, owner)
    end
    dead[#dead + 1] = {owner, takeable, ids}
  end
end
return dead
