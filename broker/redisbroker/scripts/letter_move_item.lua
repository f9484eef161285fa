-- Moves records of the dead letter KEYS[1], a list, to KEYS[2..], or deletes them. ARGV: for each its index, the item, n, and
-- the n arguments of write; 0 deletes. 'gone' is one that somebody else has moved or deleted.
local lacks = lacking(KEYS[1], 'lindex', 'lpos', 'lset', 'lrem')
if lacks then return lacks end
local taken, result, i = 0, {}, 1
local mark = '\0taken' -- in an item's place until all are found, so that no index changes
while i <= #ARGV do
  local index, n = find(KEYS[1], ARGV[i], ARGV[i + 1]), tonumber(ARGV[i + 2])
  local status = 'gone'
  if index == 'later' then
    status = index
  elseif index then
    -- Write first: a script is not rolled back.
    status = n > 0 and write(i + 3, i + 2 + n)
    if not status then
      local marked = redis.pcall('LSET', KEYS[1], index, mark)
      if type(marked) == 'table' and marked.err then
        -- A full server takes no LSET. It takes no message either, so that what comes here is only to be deleted.
        redis.call('LREM', KEYS[1], -1, ARGV[i + 1])
      else
        taken = taken + 1
      end
      status = 'done'
    end
  end
  result[#result + 1] = status
  i = i + 3 + n
end
if taken > 0 then redis.call('LREM', KEYS[1], -taken, mark) end
return result
