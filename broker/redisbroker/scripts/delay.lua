-- Puts messages into the delay set KEYS[2], due by the server's clock, and acknowledges their entries.
-- ARGV[3]: how long the set outlives its last due time in ms, 0 for ever; ARGV[4..]: for each entry id, count, delay in
-- ms, member.
local refused = unacknowledged()
if refused then return refused end
local ttl, result, i = tonumber(ARGV[3]), {}, 4
local now = now_ms()
foresee(ARGV[4], (#ARGV - 3) / 4)
while i <= #ARGV do
  local id, count, delay, member = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local status = fence(id, count)
  if not status then
    status = schedule(KEYS[2], member, now, now + delay, ttl)
    if not status then status = settle(id) end
  end
  result[#result + 1] = status
  i = i + 4
end
acknowledge()
return result
