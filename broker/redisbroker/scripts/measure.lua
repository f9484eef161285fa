-- How much stands in the stream KEYS[1], and how far the group ARGV[1] has come: [length, lag, pending], -1 for what is not
-- known. Only numbers go over the wire: XINFO STREAM holds two whole entries.
local function named(list)
  local map = {}
  for i = 1, #list, 2 do map[list[i]] = list[i + 1] end
  return map
end

if redis.call('EXISTS', KEYS[1]) == 0 then return {0, -1, -1} end
local stream = named(redis.call('XINFO', 'STREAM', KEYS[1]))
local length, lag, pending = stream['length'], -1, -1
for _, listed in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = named(listed)
  if group['name'] == ARGV[1] then
    pending = group['pending']
    local last = group['last-delivered-id']
    if length == 0 or last == stream['last-generated-id'] then
      lag = 0
    elseif not stream['entries-added'] then
      -- The embedded server: what it calls the lag is the length.
      local behind = redis.call('XRANGE', KEYS[1], last, '+')
      lag = #behind
      if lag > 0 and behind[1][1] == last then lag = lag - 1 end
    elseif group['lag'] then
      -- Where the group has fallen behind what was trimmed the server counts that, too; then all that is left is unread.
      lag = math.min(group['lag'], length)
    end
  end
end
return {length, lag, pending}
