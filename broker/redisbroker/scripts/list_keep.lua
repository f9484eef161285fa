-- Moves items from the in-flight list to the one beside it (KEYS[3]), where a death does not charge them, or back.
-- ARGV[3..]: for each number, item, '1' for aside or '0' for back.
local result = {}
for i = 3, #ARGV, 3 do
  local number, item, aside, status = ARGV[i], ARGV[i + 1], ARGV[i + 2] == '1', nil
  local from, to = aside and flight or KEYS[3], aside and KEYS[3] or flight
  if settled(number) then
    status = 'done' -- a resent command finds what it did
  elseif not redis.call('LPOS', from, item, 'RANK', -1) then
    status = 'lost'
  else
    status = failed(redis.pcall('LPUSH', to, item))
    if not status then
      redis.call('LREM', from, -1, item)
      status = carry(number)
    end
  end
  result[#result + 1] = status
end
return answer(result)
