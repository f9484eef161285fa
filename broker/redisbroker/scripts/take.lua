-- Takes pending entries that have been idle for long enough, one more delivery each.
-- ARGV[3]: the owner to take from, '' for any; ARGV[4]: idle time in ms; ARGV[5]: how many at most; ARGV[6]: the token of
-- our own liveness key; ARGV[7]: what stands before a consumer's name in its liveness key; ARGV[8]: '1' where only
-- entries may be taken that nobody has been charged with; ARGV[9]: '-', or the id behind which to begin. Where KEYS[2] is
-- given, it is the owner's key, and KEYS[3] our own: nothing is taken unless the owner's is gone and ours stands.
-- Replies with the ids that have vanished from the stream, which it acknowledges, with [id, count, fields] of the rest,
-- with the vanished ones of this very consumer, which it may have in hand, and with the id behind which the next call
-- goes on, '' where it saw all. Vanished ones that a living peer may have in hand are left alone.
local vanished, taken, own = {}, {}, {}
if KEYS[2] and (redis.call('EXISTS', KEYS[2]) == 1 or redis.call('GET', KEYS[3]) ~= ARGV[6]) then
  return {vanished, taken, own, ''}
end
local most, longest = tonumber(ARGV[5]), 1000
-- One more than is to be taken, to see whether there is more; and the one that the last page ended with comes again.
local page = math.min(most + 2, 100)

local function idle(start)
  if ARGV[3] == '' then
    return redis.call('XPENDING', stream, group, 'IDLE', ARGV[4], start, '+', page)
  end
  return redis.call('XPENDING', stream, group, 'IDLE', ARGV[4], start, '+', page, ARGV[3])
end

local function take(id, owner, count)
  local entry = redis.call('XRANGE', stream, id, id)
  if #entry > 0 then
    redis.call('XCLAIM', stream, group, me, 0, id, 'RETRYCOUNT', count + 1, 'JUSTID')
    taken[#taken + 1] = {id, count + 1, entry[1][2]}
  elseif owner == me then
    own[#own + 1] = id
  elseif redis.call('EXISTS', ARGV[7] .. owner) == 0 then
    redis.call('XACK', stream, group, id)
    vanished[#vanished + 1] = id
  end
end

-- goOn looks at a page at a time, and returns the last id that it looked at where there is more.
local function goOn(start)
  local looked = 0
  while true do
    local p, first = idle(start), start
    for _, e in ipairs(p) do
      local count = tonumber(e[4])
      if e[1] ~= first then
        if #taken == most or looked == longest or (count > 0 and ARGV[8] == '1') then return start end
        take(e[1], e[2], count)
        start, looked = e[1], looked + 1
      end
    end
    if #p < page then return '' end
  end
end
return {vanished, taken, own, goOn(ARGV[9])}
