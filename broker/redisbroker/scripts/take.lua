-- Takes pending entries that have been idle for long enough, one more delivery each.
-- ARGV[3]: the owner to take from, '' for any; ARGV[4]: idle time in ms; ARGV[5]: how many at most; ARGV[6]: the token of
-- our own liveness key; ARGV[7]: what stands before a consumer's name in its liveness key. Where KEYS[2] is given, it is
-- the owner's key, and KEYS[3] our own: nothing is taken unless the owner's is gone and ours stands.
-- Replies with the ids that have vanished from the stream, which it acknowledges, with [id, count, fields] of the rest,
-- and with the vanished ones of this very consumer, which it may have in hand. Those that a living peer may have in
-- hand are left alone.
local vanished, taken, own = {}, {}, {}
if KEYS[2] and (redis.call('EXISTS', KEYS[2]) == 1 or redis.call('GET', KEYS[3]) ~= ARGV[6]) then
  return {vanished, taken, own}
end
local p
if ARGV[3] == '' then
  p = redis.call('XPENDING', stream, group, 'IDLE', ARGV[4], '-', '+', ARGV[5])
else
  p = redis.call('XPENDING', stream, group, 'IDLE', ARGV[4], '-', '+', ARGV[5], ARGV[3])
end
for _, e in ipairs(p) do
  local id, owner, count = e[1], e[2], tonumber(e[4]) + 1
  local entry = redis.call('XRANGE', stream, id, id)
  if #entry > 0 then
    redis.call('XCLAIM', stream, group, me, 0, id, 'RETRYCOUNT', count, 'JUSTID')
    taken[#taken + 1] = {id, count, entry[1][2]}
  elseif owner == me then
    own[#own + 1] = id
  elseif redis.call('EXISTS', ARGV[7] .. owner) == 0 then
    redis.call('XACK', stream, group, id)
    vanished[#vanished + 1] = id
  end
end
return {vanished, taken, own}
