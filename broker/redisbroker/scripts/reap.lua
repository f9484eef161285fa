-- Removes dead consumers that hold nothing, each in one step with the look at it. ARGV[3]: what stands before a
-- consumer's name in its liveness key; ARGV[4..]: names. Replies with the names that were removed.
local removed = {}
for i = 4, #ARGV do
  local name = ARGV[i]
  if redis.call('EXISTS', ARGV[3] .. name) == 0 and #redis.call('XPENDING', stream, group, '-', '+', 1, name) == 0 then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, name)
    removed[#removed + 1] = name
  end
end
return removed
