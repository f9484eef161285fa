-- Takes pending entries that have been idle for long enough, one more delivery each.
-- ARGV[3]: the owner to take from, '' for any; ARGV[4]: idle time in ms; ARGV[5]: how many at most. Where KEYS[2] is
-- given, it is the owner's liveness key, and KEYS[3] our own with the token ARGV[6]: nothing is taken unless the owner's
-- is gone and ours stands.
-- Replies with the ids that have vanished from the stream, which it acknowledges, and with [id, count, fields] of the rest.
local vanished, taken = {}, {}
if KEYS[2] and (redis.call('EXISTS', KEYS[2]) == 1 or redis.call('GET', KEYS[3]) ~= ARGV[6]) then
  return {vanished, taken}
end
local p
if ARGV[3] == '' then
  p = redis.call('XPENDING', stream, group, 'IDLE', ARGV[4], '-', '+', ARGV[5])
else
  p = redis.call('XPENDING', stream, group, 'IDLE', ARGV[4], '-', '+', ARGV[5], ARGV[3])
end
for _, e in ipairs(p) do
  local id, count = e[1], tonumber(e[4]) + 1
  local entry = redis.call('XRANGE', stream, id, id)
  if #entry == 0 then
    redis.call('XACK', stream, group, id)
    vanished[#vanished + 1] = id
  else
    redis.call('XCLAIM', stream, group, me, 0, id, 'RETRYCOUNT', count, 'JUSTID')
    taken[#taken + 1] = {id, count, entry[1][2]}
  end
end
return {vanished, taken}
