-- Pushes messages to the list KEYS[3], where they wait behind all others, takes their items out of flight, and bounds the
-- list.
-- ARGV[3]: how many of its newest the list keeps, 0 for any number; ARGV[4..]: for each number, item, and the message in two
-- parts: where the second one is not empty the server's time in ms stands between them. The last element of the reply is the
-- number of those that were removed.
local result, now = {}, string.format('%013.0f', server_time()) -- as many digits as the message leaves room for
for i = 4, #ARGV, 4 do
  local number, item, message, rest = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local status = fence(number, item)
  if not status then
    if rest ~= '' then message = message .. now .. rest end
    status = failed(redis.pcall('LPUSH', KEYS[3], message)) or remove(number, item)
  end
  result[#result + 1] = status
end
answer(result)
result[#result + 1] = bound(KEYS[3], true, tonumber(ARGV[3]))
return result
