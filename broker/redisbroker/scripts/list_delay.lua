-- Puts messages into the delay set KEYS[3], due by the server's clock, and takes their items out of flight.
-- ARGV[3]: how long the set outlives its last due time in ms, 0 for ever; ARGV[4..]: for each number, item, delay in ms,
-- member.
local result, now = {}, server_time()
for i = 4, #ARGV, 4 do
  local number, item = ARGV[i], ARGV[i + 1]
  local status = fence(number, item)
  if not status then
    status = schedule(KEYS[3], ARGV[i + 3], now, now + tonumber(ARGV[i + 2]), tonumber(ARGV[3])) or remove(number, item)
  end
  result[#result + 1] = status
end
return answer(result)
