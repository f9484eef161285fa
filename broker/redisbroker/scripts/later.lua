-- The middle one of three steps where one script cannot do all: puts a message into the delay set KEYS[1].
-- ARGV[1]: how long the set outlives its last due time in ms, 0 for ever; ARGV[2]: delay in ms; ARGV[3]: member.
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.ceil(tonumber(t[2]) / 1000)
return schedule(KEYS[1], ARGV[3], now, now + tonumber(ARGV[2]), tonumber(ARGV[1])) or 'done'
