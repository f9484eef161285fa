-- Stands before every script that adds to a delay set without knowing how long it is to live.

-- wait puts a member into a delay set, due so many ms from now by the server's clock. Where the set expires so long after
-- its last due time, it still does. It returns the text of the error where it failed; nothing is written then.
local function wait(set, delay, member)
  local t = redis.call('TIME')
  local now = tonumber(t[1]) * 1000 + math.ceil(tonumber(t[2]) / 1000)
  local due, left, last = now + tonumber(delay), redis.call('PTTL', set), 0
  if left >= 0 then
    local newest = redis.pcall('ZRANGE', set, -1, -1, 'WITHSCORES')
    if newest.err then return newest.err end
    last = tonumber(newest[2])
  end
  local reply = redis.pcall('ZADD', set, string.format('%.0f', due), member)
  if type(reply) == 'table' and reply.err then return reply.err end
  if left >= 0 and due > last then redis.call('PEXPIREAT', set, string.format('%.0f', now + left + due - last)) end
  return nil
end
