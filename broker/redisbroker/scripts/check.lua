-- The first of three steps where one script cannot do all: tells which entries are still ours.
-- ARGV[3..]: for each entry id, count. The last element of the reply is the server's time in ms.
local result = {}
for i = 3, #ARGV, 2 do
  result[#result + 1] = fence(ARGV[i], ARGV[i + 1]) or 'done'
end
result[#result + 1] = now_ms()
return result
