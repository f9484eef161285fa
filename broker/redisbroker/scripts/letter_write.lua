-- Stands before every script that moves records of a dead letter, behind wait and lacking.

-- write carries out what stands in ARGV from first to last: a command, the index of its key in KEYS (0: none, the next
-- argument is the name of a channel), whether an answer of 0 means that nobody received it (1), and its arguments. It
-- returns nil, or why nothing was written.
local function write(first, last)
  local command, key = ARGV[first], KEYS[tonumber(ARGV[first + 1])]
  local lacks = key and lacking(key, string.lower(command))
  if command == 'ZADD' then lacks = lacks or lacking(key, 'pttl', 'zrange', 'pexpireat') end
  if lacks then return lacks.err end
  if command == 'ZADD' then return wait(key, ARGV[first + 3], ARGV[first + 4]) end
  local reply
  if key then
    reply = redis.pcall(command, key, unpack(ARGV, first + 3, last))
  else
    reply = redis.pcall(command, unpack(ARGV, first + 3, last))
  end
  if type(reply) == 'table' and reply.err then return reply.err end
  if reply == 0 and ARGV[first + 2] == '1' then return 'unheard' end
  return nil
end
