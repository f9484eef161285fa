-- Removes the oldest entries of the stream KEYS[1] that nobody needs any more, some in a call, so that the server answers
-- others in between.
-- ARGV[1]: the group without which nothing is removed, '' for a stream whose groups are not asked; ARGV[2]: nothing is
-- removed from this id on, '' for a call that only looks; ARGV[3]: how many of the newest stay, 0 for no bound; ARGV[4]: how
-- long an entry stays in ms, 0 for no bound; ARGV[5]: how many entries the call removes at most.
-- Replies with nil where the stream or the group is gone, else with the number of entries removed, the lowest id that a
-- group still needs, and [group, the lowest id that it needs, how many are pending] of every group that needs what another
-- one has been given already.
local stream = KEYS[1]

-- The two parts of an id are numbers of 64 bits, which Lua's do not hold: they stay text.
local function parts(id)
  local ms, seq = string.match(id, '^(%d+)%-?(%d*)$')
  if seq == '' then seq = '0' end
  return ms, seq
end

local function fewer(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function less(a, b)
  local a_ms, a_seq = parts(a)
  local b_ms, b_seq = parts(b)
  if a_ms ~= b_ms then return fewer(a_ms, b_ms) end
  return fewer(a_seq, b_seq)
end

local function plus_one(n)
  local head, nines = string.match(n, '^(%d-)(9*)$')
  local zeros = string.rep('0', #nines)
  if head == '' then return '1' .. zeros end
  return string.sub(head, 1, -2) .. string.char(string.byte(head, -1) + 1) .. zeros
end

local function after(id)
  local ms, seq = parts(id)
  if seq == '18446744073709551615' then return plus_one(ms) .. '-0' end
  return ms .. '-' .. plus_one(seq)
end

-- remove removes entries below an id, most of them at most.
local function remove(below, most)
  -- Whole nodes are cheap. The embedded server, which has no version, would take no notice of the limit.
  if redis.REDIS_VERSION_NUM then
    local n = redis.call('XTRIM', stream, 'MINID', '~', below, 'LIMIT', most)
    if n > 0 then return n end
  end
  -- What is left is within one node of them.
  local entries = redis.call('XRANGE', stream, '-', below, 'COUNT', math.min(most, 100))
  local n = #entries
  if n > 0 and entries[n][1] == below then n = n - 1 end
  if n == 0 then return 0 end
  return redis.call('XTRIM', stream, 'MINID', '=', after(entries[n][1]))
end

if redis.call('EXISTS', stream) == 0 then return false end
local need, behind = ARGV[2], {}
if ARGV[1] ~= '' then
  local groups, front, known = {}, '0-0', false
  need = nil
  for _, listed in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local g = {}
    for i = 1, #listed, 2 do g[listed[i]] = listed[i + 1] end
    g.need = after(g['last-delivered-id'])
    if less(front, g.need) then front = g.need end
    if g.pending > 0 then g.need = redis.call('XPENDING', stream, g.name, '-', '+', 1)[1][1] end
    if not need or less(g.need, need) then need = g.need end
    groups[#groups + 1] = g
    known = known or g.name == ARGV[1]
  end
  if not known then return false end
  for _, g in ipairs(groups) do
    if less(g.need, front) then behind[#behind + 1] = {g.name, g.need, g.pending} end
  end
end

local removed = 0
if ARGV[2] ~= '' then
  local below, last, age, most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
  if less(need, below) then below = need end
  if last > 0 then
    local over = redis.call('XLEN', stream) - last
    if over > 0 then removed = remove(below, math.min(over, most)) end
  end
  if age > 0 and removed == 0 then
    local t = redis.call('TIME')
    local oldest = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) - age
    local id = string.format('%.0f-0', math.max(oldest, 0))
    if less(id, below) then below = id end
    removed = remove(below, most)
  end
  if last == 0 and age == 0 then removed = remove(below, most) end
end
return {removed, need, unpack(behind)}
