-- Appends kept entries again, copied from the stream with other headers, and acknowledges them.
-- ARGV[3]: the name of the field that holds the message's id; ARGV[4..]: for each entry id, count, number of names to
-- leave out, the names, number of fields to set (names and values counted apart), names and values.
-- 'wide' is an entry of more fields than one call can append.
local refused = unacknowledged()
if refused then return refused end
local result, i = {}, 4
while i <= #ARGV do
  local id, count = ARGV[i], ARGV[i + 1]
  local replaced, fields = {}, {}
  local n = tonumber(ARGV[i + 2])
  for k = i + 3, i + 2 + n do replaced[ARGV[k]] = true end
  i = i + 3 + n
  local set, m = i + 1, tonumber(ARGV[i])
  for k = set, set + m - 1, 2 do replaced[ARGV[k]] = true end
  i = i + 1 + m
  local status = fence(id, count)
  if not status then
    local entry = redis.call('XRANGE', stream, id, id)
    if #entry == 0 then
      redis.call('XACK', stream, group, id)
      status = 'vanished'
    elseif #entry[1][2] > 3800 then
      status = 'wide'
    else
      local named = false
      for k = 1, #entry[1][2], 2 do
        local name = entry[1][2][k]
        if name == ARGV[3] and entry[1][2][k + 1] ~= '' then named = true end
        if not replaced[name] then
          fields[#fields + 1], fields[#fields + 2] = name, entry[1][2][k + 1]
        end
      end
      for k = set, set + m - 1 do fields[#fields + 1] = ARGV[k] end
      if not named then fields[#fields + 1], fields[#fields + 2] = ARGV[3], id end
      status = failed(redis.pcall('XADD', stream, '*', unpack(fields)))
      if not status then
        redis.call('XACK', stream, group, id)
        status = 'done'
      end
    end
  end
  result[#result + 1] = status
end
return result
