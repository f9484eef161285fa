-- Keeps entries in hand from looking idle. ARGV[3..]: for each entry id, count.
-- An entry that was trimmed while in hand stays pending as it is: XCLAIM would drop it, and it is still ours to settle.
local result = {}
for i = 3, #ARGV, 2 do
  local id, count = ARGV[i], ARGV[i + 1]
  local status = fence(id, count)
  if not status then
    if #redis.call('XRANGE', stream, id, id) > 0 then
      redis.call('XCLAIM', stream, group, me, 0, id, 'IDLE', 0, 'RETRYCOUNT', count, 'JUSTID')
    end
    status = 'done'
  end
  result[#result + 1] = status
end
return result
