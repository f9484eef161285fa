-- Replies with the numbers of the commands that the user may not run.
-- ARGV: for each command n, then its n words. A server without access control refuses nothing.
local refused, i, number = {}, 1, 0
while redis.acl_check_cmd and i <= #ARGV do
  local n = tonumber(ARGV[i])
  number = number + 1
  if not redis.acl_check_cmd(unpack(ARGV, i + 1, i + n)) then
    refused[#refused + 1] = number
  end
  i = i + 1 + n
end
return refused
