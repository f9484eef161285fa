-- Takes or keeps the turn KEYS[2] at records of the dead letter KEYS[1] that are written to another cluster slot and then
-- deleted. ARGV[1]: whose turn; ARGV[2]: how long it lasts in ms; then the ids of records in a stream.
-- Replies with nothing while it is another's turn, else for each record whether it is there.
local lacks = lacking(KEYS[1], 'xrange', 'xdel') or lacking(KEYS[2], 'get', 'set', 'del')
if lacks then return lacks end
if not turn(KEYS[2], ARGV[1], ARGV[2]) then return {} end
local result = {}
for i = 3, #ARGV do result[#result + 1] = #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i]) end
return result
