-- Stands before every script that looks for items of a dead letter that is a list.

-- find returns the index of an item in the list: the given one (counted from the right, -1 is the last), or where it is by
-- now. What others take off at the right brings an item nearer to it and never takes it away. nil is one that is not there;
-- 'later' one that is left to another call, because this one has searched enough.
local budget = 20000
local function find(list, index, item)
  index = tonumber(index)
  if redis.call('LINDEX', list, index) == item then return index end
  if budget <= 0 then return 'later' end
  budget = budget + index
  return redis.call('LPOS', list, item, 'RANK', -1, 'MAXLEN', -index) or nil
end
