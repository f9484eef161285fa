-- Appends messages to the dead letter KEYS[2], with the time of the burial, acknowledges their entries, and bounds the dead
-- letter.
-- ARGV[3]: the name of the time's field; ARGV[4]: how many of its newest records the dead letter keeps, 0 for any number;
-- ARGV[5..]: as copy. The last element of the reply is the number of records that were removed.
local refused = unacknowledged()
if refused then return refused end
foresee(ARGV[5], entries(5))
local result, i = {}, 5
while i <= #ARGV do
  local id, count, n = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local status = fence(id, count)
  if not status then
    local fields = {unpack(ARGV, i + 3, i + 2 + n)}
    fields[n + 1], fields[n + 2] = ARGV[3], string.format('%.0f', now_ms())
    status = failed(redis.pcall('XADD', KEYS[2], '*', unpack(fields)))
    if not status then status = settle(id) end
  end
  result[#result + 1] = status
  i = i + 3 + n
end
acknowledge()
result[#result + 1] = bound(KEYS[2], false, tonumber(ARGV[4]))
return result
