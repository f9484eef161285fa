-- Returns an item from the in-flight list KEYS[1] to the consumers' end of the list KEYS[2]. ARGV[1]: the item.
if redis.call('LPOS', KEYS[1], ARGV[1], 'RANK', -1) then
  redis.call('RPUSH', KEYS[2], ARGV[1])
  redis.call('LREM', KEYS[1], -1, ARGV[1])
end
return 'done'
