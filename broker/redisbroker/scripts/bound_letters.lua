-- Bounds the dead letter KEYS[1]. ARGV[1]: '1' for a list; ARGV[2]: how many of the newest stay, 0 for any number.
-- Replies with the number of records that were removed.
return bound(KEYS[1], ARGV[1] == '1', tonumber(ARGV[2]))
