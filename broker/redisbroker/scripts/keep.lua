-- Leaves entries pending under their consumer, with another delivery count and idle time zero.
-- ARGV[3..]: for each entry id, count, new count.
local result, i = {}, 3
while i <= #ARGV do
  local id, count, kept = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local status = fence(id, count)
  -- A resent command finds its own count.
  if status == 'lost' and fence(id, kept) == nil then status = nil end
  if not status then
    if #redis.call('XRANGE', stream, id, id) == 0 then
      -- Whoever holds the body settles it in another way; an acknowledgement would lose the message.
      status = 'vanished'
    else
      redis.call('XCLAIM', stream, group, me, 0, id, 'IDLE', 0, 'RETRYCOUNT', kept, 'JUSTID')
      status = 'done'
    end
  end
  result[#result + 1] = status
  i = i + 3
end
return result
