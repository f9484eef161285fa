-- Keeps entries in hand from looking idle. ARGV[3]: '1' where this consumer's own reads take entries in hand back
-- (claiming), so that another count is no other owner's; ARGV[4..]: for each entry id, count.
-- An entry that was trimmed while in hand stays pending as it is: XCLAIM would drop it, and it is still ours to settle.
local result = {}
for i = 4, #ARGV, 2 do
  local id, count = ARGV[i], ARGV[i + 1]
  local status = fence(id, count)
  if status == 'lost' and ARGV[3] == '1' then
    local p = redis.call('XPENDING', stream, group, id, id, 1)
    if p[1][2] == me then status, count = nil, p[1][4] end
  end
  if not status then
    if #redis.call('XRANGE', stream, id, id) > 0 then
      redis.call('XCLAIM', stream, group, me, 0, id, 'IDLE', 0, 'RETRYCOUNT', count, 'JUSTID')
    end
    status = 'done'
  end
  result[#result + 1] = status
end
return result
