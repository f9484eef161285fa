-- Lists what is pending under this consumer and not in hand: entries whose read ended in an error after the server had
-- given them out, or that another process under the same name left. ARGV[3]: how many at most; ARGV[4]: what is added to
-- their delivery counts; ARGV[5]: the number of ids in hand, and then these; then the ids that were left pending until
-- they are claimed again, each with the delivery count that it was left with. One with another count has been claimed
-- again, and the reply was lost.
-- Replies as take.
local held, vanished, found, raise = {}, {}, {}, tonumber(ARGV[4])
local waiting, n = {}, tonumber(ARGV[5])
for i = 6, 5 + n do held[ARGV[i]] = true end
for i = 6 + n, #ARGV, 2 do waiting[ARGV[i]] = tonumber(ARGV[i + 1]) end
local start, max = '-', tonumber(ARGV[3])
while #found < max do
  local p = redis.call('XPENDING', stream, group, start, '+', 100, me)
  for _, e in ipairs(p) do
    local id = e[1]
    if id ~= start and not held[id] and waiting[id] ~= tonumber(e[4]) and #found < max then
      local entry = redis.call('XRANGE', stream, id, id)
      if #entry == 0 then
        redis.call('XACK', stream, group, id)
        vanished[#vanished + 1] = id
      else
        local count = tonumber(e[4]) + raise
        if raise > 0 then
          redis.call('XCLAIM', stream, group, me, 0, id, 'IDLE', 0, 'RETRYCOUNT', count, 'JUSTID')
        end
        found[#found + 1] = {id, count, entry[1][2]}
      end
    end
    start = id
  end
  if #p < 100 then break end
end
return {vanished, found, {}, ''}
