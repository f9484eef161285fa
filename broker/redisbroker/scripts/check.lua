-- The first of three steps where one script cannot do all: tells whether an entry is still ours.
-- ARGV[3]: id; ARGV[4]: count.
return fence(ARGV[3], ARGV[4]) or 'done'
