-- The first of three steps where one script cannot do all: tells which items are still in flight.
-- ARGV[3..]: for each number, item. The last element of the reply is the server's time in ms.
local result = {}
for i = 3, #ARGV, 2 do
  result[#result + 1] = fence(ARGV[i], ARGV[i + 1]) or 'done'
end
result[#result + 1] = server_time()
return result
