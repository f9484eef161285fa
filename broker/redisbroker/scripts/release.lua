-- Hands back what the server lists under this consumer, at most 500 entries a call, and removes the consumer once
-- nothing is left. ARGV[3]: the consumer that holds what is free; ARGV[4]: the idle time that lets a peer take an entry
-- at once; ARGV[5]: '1' where an entry that this process does not hold is waiting for its next attempt (claiming), and
-- '0' where it was read and never seen; ARGV[6]: the token of the liveness key KEYS[2], which goes before the consumer does;
-- ARGV[7..]: for each entry in hand id, count, idle.
-- Replies with the number of entries that are still to be handed back.
local held = {}
for i = 7, #ARGV, 3 do held[ARGV[i]] = {ARGV[i + 1], ARGV[i + 2]} end
local p = redis.call('XPENDING', stream, group, '-', '+', 500, me)
for _, e in ipairs(p) do
  local id, idle, count = e[1], e[3], tonumber(e[4])
  if #redis.call('XRANGE', stream, id, id) == 0 then
    redis.call('XACK', stream, group, id)
  else
    if held[id] then
      count, idle = held[id][1], held[id][2]
    elseif ARGV[5] == '0' then
      count, idle = math.max(count - 1, 0), ARGV[4]
    end
    redis.call('XCLAIM', stream, group, ARGV[3], 0, id, 'IDLE', idle, 'RETRYCOUNT', count, 'JUSTID')
  end
end
p = redis.call('XPENDING', stream, group, '-', '+', 1, me)
if #p == 0 then
  if redis.call('GET', KEYS[2]) == ARGV[6] then redis.call('DEL', KEYS[2]) end
  redis.call('XGROUP', 'DELCONSUMER', stream, group, me)
end
return #p
