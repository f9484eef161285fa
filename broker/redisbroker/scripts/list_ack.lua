-- Takes items out of flight. ARGV[3..]: for each number, item.
local result = {}
for i = 3, #ARGV, 2 do
  local status
  if settled(ARGV[i]) then
    status = 'gone'
  elseif redis.call('LREM', flight, -1, ARGV[i + 1]) == 0 then
    status = 'lost'
  else
    status = carry(ARGV[i])
  end
  result[#result + 1] = status
end
return answer(result)
