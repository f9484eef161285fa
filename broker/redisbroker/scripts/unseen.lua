-- Hands out entries that are pending under this consumer and not in hand. ARGV[3]: what is added to their delivery counts;
-- ARGV[4]: how many at most; ARGV[5..]: for each entry id, count. Their idle time begins anew, as with every hand-out.
-- Replies as take.
local vanished, found, raise, most = {}, {}, tonumber(ARGV[3]), tonumber(ARGV[4])
for i = 5, #ARGV, 2 do
  if #found == most then return {vanished, found, {}, ARGV[i - 2]} end
  local id, count = ARGV[i], ARGV[i + 1]
  if not fence(id, count) then
    local entry = redis.call('XRANGE', stream, id, id)
    if #entry == 0 then
      redis.call('XACK', stream, group, id)
      vanished[#vanished + 1] = id
    else
      count = tonumber(count) + raise
      redis.call('XCLAIM', stream, group, me, 0, id, 'IDLE', 0, 'RETRYCOUNT', count, 'JUSTID')
      found[#found + 1] = {id, count, entry[1][2]}
    end
  end
end
return {vanished, found, {}, ''}
