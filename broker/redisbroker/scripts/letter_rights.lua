-- Stands before every script that changes a dead letter.

-- words is how many words the shortest form of a command has behind its key where that is not one: the server counts them.
local words = {del = 0, get = 0, pttl = 0, lrem = 2, lset = 2, xrange = 2, zadd = 2, zrange = 2, xadd = 3}

-- lacking returns an error where the user may not run one of the commands on the key. A script is not rolled back: what cannot
-- be finished must not be begun. The embedded server has no access control, and refuses nothing.
local function lacking(key, ...)
  for _, command in ipairs({...}) do
    if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, unpack({'0', '0', '0'}, 1, words[command] or 1)) then
      return {err = "NOPERM the user may not run '" .. command .. "' on \"" .. key .. '"'}
    end
  end
end
