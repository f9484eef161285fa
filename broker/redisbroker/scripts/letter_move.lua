-- Moves records of the dead letter KEYS[1], a stream, to KEYS[2..], or deletes them. ARGV: for each its id, n, and the n
-- arguments of write; 0 deletes. 'gone' is one that somebody else has moved or deleted.
local lacks = lacking(KEYS[1], 'xrange', 'xdel')
if lacks then return lacks end
local result, i = {}, 1
while i <= #ARGV do
  local id, n = ARGV[i], tonumber(ARGV[i + 1])
  local status = 'gone'
  if #redis.call('XRANGE', KEYS[1], id, id) > 0 then
    -- Write first: a script is not rolled back.
    status = n > 0 and write(i + 2, i + 1 + n)
    if not status then
      redis.call('XDEL', KEYS[1], id)
      status = 'done'
    end
  end
  result[#result + 1] = status
  i = i + 2 + n
end
return result
