-- Stands before every script that settles. KEYS[1] is the stream, ARGV[1] the group, ARGV[2] the consumer.
local stream, group, me = KEYS[1], ARGV[1], ARGV[2]

-- The counts of those of our entries that foresee saw; false where this call has settled one. settled are their ids.
local counts, settled = {}, {}

-- entries counts those that stand in ARGV from i on: each with its id, count, n, and n names and values.
local function entries(i)
  local n = 0
  while i <= #ARGV do n, i = n + 1, i + 3 + tonumber(ARGV[i + 2]) end
  return n
end

-- foresee looks at about n entries together, from an id on, which is cheaper than one by one. fence asks for what it misses.
local function foresee(from, n)
  if n < 2 then return end
  for _, p in ipairs(redis.call('XPENDING', stream, group, from, '+', 2 * n, me)) do counts[p[1]] = tonumber(p[4]) end
end

-- settle notes that what becomes of the entry is written, and acknowledge acknowledges all such in the end: nothing that can
-- fail stands between. unacknowledged returns an error where that would be refused.
local function settle(id)
  counts[id], settled[#settled + 1] = false, id
  return 'done'
end
local function unacknowledged()
  -- A user who may not acknowledge is refused before anything is written, which would be written again. The embedded server
  -- refuses nothing.
  if redis.acl_check_cmd and not redis.acl_check_cmd('XACK', stream, group, '0-0') then
    return redis.error_reply('NOPERM the user may not run xack on "' .. stream .. '"')
  end
end
local function acknowledge()
  if #settled > 0 then redis.call('XACK', stream, group, unpack(settled)) end
end

-- fence tells whether the entry is still ours as it was handed out: nil if so, else 'gone' (no longer pending) or
-- 'lost' (somebody else's, or handed out anew).
local function fence(id, count)
  if counts[id] == false then return 'gone' end
  if counts[id] == tonumber(count) then return nil end
  local p = redis.call('XPENDING', stream, group, id, id, 1)
  if #p == 0 then return 'gone' end
  if p[1][2] ~= me or tonumber(p[1][4]) ~= tonumber(count) then return 'lost' end
  return nil
end

-- failed returns the text of a pcall's error, nil where there was none. A script is not rolled back: the write that may
-- fail comes first, and nothing follows where it did.
local function failed(reply)
  if type(reply) == 'table' and reply.err then return 'ERR ' .. reply.err end
  return nil
end

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.ceil(tonumber(t[2]) / 1000)
end
