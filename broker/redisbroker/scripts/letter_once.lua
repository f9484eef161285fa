-- Writes records to KEYS[1] that have not been written there yet: the set KEYS[2] has the ids of those that were and may
-- still stand in the dead letter. ARGV[1]: how long the set is kept in ms; then for each record its id, n, and the n
-- arguments of write.
local lacks = lacking(KEYS[2], 'sadd', 'srem', 'pexpire')
if lacks then return lacks end
local result, i = {}, 2
while i <= #ARGV do
  local id, n = ARGV[i], tonumber(ARGV[i + 1])
  local status = 'done'
  if redis.call('SADD', KEYS[2], id) == 1 then
    local failure = write(i + 2, i + 1 + n)
    if failure then
      redis.call('SREM', KEYS[2], id)
      status = failure
    end
  end
  result[#result + 1] = status
  i = i + 2 + n
end
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return result
