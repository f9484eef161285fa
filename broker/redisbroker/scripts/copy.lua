-- Appends messages again and acknowledges their entries.
-- ARGV[3..]: for each entry id, count, n, then the n names and values of the copy.
local refused = unacknowledged()
if refused then return refused end
foresee(ARGV[3], entries(3))
local result, i = {}, 3
while i <= #ARGV do
  local id, count, n = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local status = fence(id, count)
  if not status then
    status = failed(redis.pcall('XADD', stream, '*', unpack(ARGV, i + 3, i + 2 + n)))
    if not status then status = settle(id) end
  end
  result[#result + 1] = status
  i = i + 3 + n
end
acknowledge()
return result
