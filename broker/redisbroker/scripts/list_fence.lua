-- Stands before every script that settles items of a reliable list. KEYS[1] is the in-flight list, KEYS[2] keeps the
-- numbers of the settlements that were carried out. ARGV[1]: every number up to this one has been answered; ARGV[2]: how
-- long the numbers are kept in ms.
local flight, numbers = KEYS[1], KEYS[2]
local known = redis.call('ZSCORE', numbers, 'floor')
local floor = math.max(tonumber(known or 0), tonumber(ARGV[1]))
-- The server refuses no memory to a script that has begun to write, and this needs none: what is in flight can be settled
-- on a full server, too.
redis.call('PEXPIRE', numbers, ARGV[2])

-- settled tells whether the settlement of this number was carried out before. A command that comes late, after it was sent
-- again, would else remove an equal item.
local function settled(number)
  return tonumber(number) <= floor or redis.call('ZSCORE', numbers, number)
end

-- fence tells whether an item may be settled: nil if so, else 'gone' (settled before) or 'lost' (not in flight any more).
local function fence(number, item)
  if settled(number) then return 'gone' end
  if not redis.call('LPOS', flight, item, 'RANK', -1) then return 'lost' end
  return nil
end

-- failed returns the text of a pcall's error, nil where there was none. A script is not rolled back: the write that may
-- fail comes first, and nothing follows where it did.
local function failed(reply)
  if type(reply) == 'table' and reply.err then return 'ERR ' .. reply.err end
  return nil
end

local carried = {}
-- carry notes that a settlement was carried out.
local function carry(number)
  carried[#carried + 1], carried[#carried + 2] = number, number
  return 'done'
end

-- remove takes an item out of flight.
local function remove(number, item)
  redis.call('LREM', flight, -1, item)
  return carry(number)
end

-- answer ends the script.
local function answer(result)
  if #carried > 0 then
    redis.call('ZREMRANGEBYSCORE', numbers, '-inf', '(' .. string.format('%.0f', floor))
    redis.call('ZADD', numbers, string.format('%.0f', floor), 'floor', unpack(carried))
    if not known then redis.call('PEXPIRE', numbers, ARGV[2]) end
  end
  return result
end

local function server_time()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.ceil(tonumber(t[2]) / 1000)
end
