"""The scripts that Redis runs for the store.

A script is one transaction, but nothing is rolled back when it fails: each checks everything before its first
write. KEYS are meta, state and letters of one shard.
"""

# ARGV: generation, owner, holder -> epoch, or 0 and the generation that is newer
ACQUIRE = """
local generation = tonumber(redis.call('HGET', KEYS[1], 'generation') or '0')
local mine = tonumber(ARGV[1])
if mine > 0 and mine < generation then return {0, generation} end
-- all that a commit will run, with no effect: what this user may not run fails here, not in its midst
redis.call('HLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
redis.call('HDEL', KEYS[1], 'none')
redis.call('ZADD', KEYS[3], 'XX', 0, 'none')
redis.call('ZREMRANGEBYLEX', KEYS[3], '(none', '(none')
redis.call('ZREMRANGEBYRANK', KEYS[3], 1, 0)
redis.call('HSET', KEYS[1], 'generation', math.max(mine, generation), 'owner', ARGV[2], 'holder', ARGV[3])
return {redis.call('HINCRBY', KEYS[1], 'epoch', 1), generation}
"""

# ARGV: epoch, holder, start, end, token, most letters, numbers of deletions, settled and letters; then those
# (a letter is its place and its member), then keys and values -> nothing, or if it is refused: epoch, offset,
# and 1 if another is the holder. `holder` is empty when it is not known; `token` is this commit's own: sent
# again after a time-out it is not made again.
COMMIT = """
local meta, state, letters = KEYS[1], KEYS[2], KEYS[3]
local held = redis.call('HMGET', meta, 'epoch', 'offset', 'holder', 'token', 'keys')
if held[4] == ARGV[5] then return false end
local other = ARGV[2] ~= '' and held[3] ~= ARGV[2]
local missing = redis.call('HLEN', state) ~= tonumber(held[5] or '0')
redis.call('ZCARD', letters)
if held[1] ~= ARGV[1] or (held[2] or '0') ~= ARGV[3] or other or missing then
  return {held[1] or '0', held[2] or '0', other and 1 or 0}
end
-- the first write is one that Redis refuses when it is full; after that it lets a script finish
redis.call('HSET', meta, 'offset', ARGV[4], 'token', ARGV[5])
local at = 10
local function chunks(count, width, run)
  for i = at, at + count - 1, 1000 * width do
    run(unpack(ARGV, i, math.min(i + 1000 * width, at + count) - 1))
  end
  at = at + count
end
local function forget(place) redis.call('ZREMRANGEBYLEX', letters, '[' .. place, '(' .. place .. '\\255') end
chunks(tonumber(ARGV[7]), 1, function(...) redis.call('HDEL', state, ...) end)
for i = at, at + ARGV[8] - 1 do forget(ARGV[i]) end
at = at + ARGV[8]
for i = at, at + 2 * ARGV[9] - 1, 2 do
  forget(ARGV[i])
  redis.call('ZADD', letters, 0, ARGV[i + 1])
end
at = at + 2 * ARGV[9]
if ARGV[9] ~= '0' then redis.call('ZREMRANGEBYRANK', letters, 0, -ARGV[6] - 1) end
chunks(#ARGV - at + 1, 2, function(...) redis.call('HSET', state, ...) end)
redis.call('HSET', meta, 'keys', redis.call('HLEN', state))
return false
"""

READ = "return {redis.call('HMGET', KEYS[1], 'offset', 'keys'), redis.call('HGETALL', KEYS[2])}"

# ARGV: 1 to keep the state
RESET = """
if redis.call('EXISTS', KEYS[1]) == 0 then return end
-- deletions first: Redis allows them when it is full, and the rest of the script after them
redis.call('HDEL', KEYS[1], 'generation', 'owner', 'holder', 'token')
if ARGV[1] ~= '1' then
  redis.call('HDEL', KEYS[1], 'offset', 'keys')
  redis.call('UNLINK', KEYS[2], KEYS[3])
end
redis.call('HINCRBY', KEYS[1], 'epoch', 1)
"""
