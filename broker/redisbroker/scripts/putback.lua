-- Makes entries pending again in a group that was made anew, each under its owner, where they are not pending already.
-- ARGV[3..]: for each entry id, count, owner, idle time in ms.
-- Replies with the numbers of the entries that were put back, the first is 1.
local back, n = {}, 0
for i = 3, #ARGV, 4 do
  local id, count, owner, idle = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  n = n + 1
  if #redis.call('XPENDING', stream, group, id, id, 1) == 0 and #redis.call('XRANGE', stream, id, id) > 0 then
    redis.call('XCLAIM', stream, group, owner, 0, id, 'IDLE', idle, 'RETRYCOUNT', count, 'FORCE', 'JUSTID')
    back[#back + 1] = n
  end
end
return back
