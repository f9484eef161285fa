-- Adds messages to the delay set KEYS[1], due by the server's clock. ARGV: for each its delay in ms, and its member.
local result = {}
for i = 1, #ARGV, 2 do result[#result + 1] = wait(KEYS[1], ARGV[i], ARGV[i + 1]) or 'done' end
return result
