-- Stands before every script that delays.

-- schedule puts a member into a delay set, due at the given time in ms, where it is not there yet: a delay that is written
-- again changes nothing. ttl is how long the set outlives its last due time in ms, 0 for ever. It returns the text of the
-- error where it failed; nothing is written then.
local function schedule(set, member, now, due, ttl)
  local left = redis.call('PTTL', set)
  local reply = redis.pcall('ZADD', set, 'NX', string.format('%.0f', due), member)
  if type(reply) == 'table' and reply.err then return 'ERR ' .. reply.err end
  if ttl > 0 then
    -- A key that stood without expiry keeps none unless it is new: members that were added for ever stay for ever.
    if left == -2 or (left >= 0 and due + ttl > now + left) then
      redis.call('PEXPIREAT', set, string.format('%.0f', due + ttl))
    end
  elseif left >= 0 then
    redis.call('PERSIST', set)
  end
  return nil
end
