-- As letter_claim, for a list; ARGV[3..]: the indexes and items of the records.
local lacks = lacking(KEYS[1], 'lindex', 'lpos', 'lset', 'lrem') or lacking(KEYS[2], 'get', 'set', 'del')
if lacks then return lacks end
if not turn(KEYS[2], ARGV[1], ARGV[2]) then return {} end
local result = {}
for i = 3, #ARGV, 2 do result[#result + 1] = find(KEYS[1], ARGV[i], ARGV[i + 1]) and 1 or 0 end
return result
