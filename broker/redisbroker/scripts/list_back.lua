-- Moves items from the list beside the in-flight list KEYS[1], which is KEYS[2], back into flight. ARGV: the items.
for _, item in ipairs(ARGV) do
  if redis.call('LPOS', KEYS[2], item, 'RANK', -1) then
    redis.call('LPUSH', KEYS[1], item)
    redis.call('LREM', KEYS[2], -1, item)
  end
end
return 0
