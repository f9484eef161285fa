-- Stands before every script that settles. KEYS[1] is the stream, ARGV[1] the group, ARGV[2] the consumer.
local stream, group, me = KEYS[1], ARGV[1], ARGV[2]

-- fence tells whether the entry is still ours as it was handed out: nil if so, else 'gone' (no longer pending) or
-- 'lost' (somebody else's, or handed out anew).
local function fence(id, count)
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
