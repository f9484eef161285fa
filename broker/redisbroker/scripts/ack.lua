-- The last of three steps where one script cannot do all: acknowledges entries that are still ours.
-- ARGV[3..]: for each entry id, count.
local result = {}
for i = 3, #ARGV, 2 do
  local status = fence(ARGV[i], ARGV[i + 1])
  if not status then
    redis.call('XACK', stream, group, ARGV[i])
    status = 'done'
  end
  result[#result + 1] = status
end
return result
