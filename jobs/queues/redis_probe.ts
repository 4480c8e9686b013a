import type { RedisClient } from './redis.ts'

/**
 * Runs each command that BullMQ and we use once, on a key that is deleted afterwards. Redis refuses some of them if it is full, a
 * replica, a node of a cluster (without ?cluster in REDIS_URL, the two keys have different slots), or if its user has too few
 * permissions. The error names the refused command, which Redis itself does not do for scripts. SET comes first: after another
 * write, a script may continue when memory runs out.
 */
const PROBE = `
  local key = KEYS[1]
  local groups = {
    { {'SET', key, '1', 'PX', '1000'}, {'GET', key}, {'PTTL', key}, {'PEXPIRE', key, '1000'}, {'PERSIST', key},
      {'TYPE', key}, {'EXISTS', key}, {'RENAME', key, key}, {'INCR', key} },
    { {'HSET', key, 'a', '1'}, {'HMSET', key, 'a', '1'}, {'HSETNX', key, 'b', '1'}, {'HGET', key, 'a'},
      {'HMGET', key, 'a'}, {'HGETALL', key}, {'HLEN', key}, {'HEXISTS', key, 'a'}, {'HINCRBY', key, 'a', '1'},
      {'HDEL', key, 'a'} },
    { {'LPUSH', key, 'a', 'b', 'c'}, {'RPUSH', key, 'd'}, {'LLEN', key}, {'LRANGE', key, '0', '-1'},
      {'LINDEX', key, '0'}, {'LPOS', key, 'a'}, {'LSET', key, '0', 'e'}, {'LREM', key, '0', 'x'}, {'LTRIM', key, '0', '9'},
      {'RPOPLPUSH', key, key}, {'LPOP', key}, {'RPOP', key} },
    { {'SADD', key, 'a'}, {'SCARD', key}, {'SMEMBERS', key}, {'SISMEMBER', key, 'a'}, {'SREM', key, 'b'} },
    { {'ZADD', key, '1', 'a'}, {'ZCARD', key}, {'ZCOUNT', key, '0', '1'}, {'ZSCORE', key, 'a'},
      {'ZRANGE', key, '0', '-1'}, {'ZREVRANGE', key, '0', '-1'}, {'ZRANGEBYSCORE', key, '0', '1'},
      {'ZREVRANGEBYSCORE', key, '1', '0'}, {'ZREM', key, 'b'}, {'ZREMRANGEBYSCORE', key, '5', '6'},
      {'ZREMRANGEBYRANK', key, '5', '6'}, {'ZPOPMIN', key} },
    { {'XADD', key, '*', 'a', '1'}, {'XTRIM', key, 'MAXLEN', '1'} },
  }
  for _, commands in ipairs(groups) do
    for _, command in ipairs(commands) do
      local answer = redis.pcall(unpack(command))
      if type(answer) == 'table' and answer.err then
        redis.call('DEL', key)
        local message = string.gsub(answer.err, '^ERR The user executing', 'NOPERM ' .. command[1] .. ': the user executing')
        return redis.error_reply(message)
      end
    end
    redis.call('DEL', key)
  end
  return 1`

const BLOCK_SECONDS = 0.01

/** Runs the commands that this program needs. @throws the error from Redis if it refuses one. */
export async function probe(redis: RedisClient, prefix: string): Promise<void> {
  await redis.eval(PROBE, 2, `${prefix}:ready`, `${prefix}:runs:meta`)
  // Not allowed in a script. The key is empty, so this only waits for the timeout.
  await redis.bzpopmin(`${prefix}:ready`, BLOCK_SECONDS)
}

/** Throws unless the Redis that holds our keys answers: in a cluster, other nodes may answer without it. */
export async function reach(redis: RedisClient, prefix: string): Promise<void> {
  await redis.exists(`${prefix}:ready`)
}

/** The id of a stream's first entry begins with Redis's time. TIME would need a right of its own. */
const CLOCK = `
  local id = redis.call('XADD', KEYS[1], '*', 'a', '1')
  redis.call('DEL', KEYS[1])
  return id`

/** Returns how far Redis's clock is ahead of this machine's, in ms, to half the time of an answer. */
export async function clockAheadMs(redis: RedisClient, prefix: string): Promise<number> {
  const [askedMs, startedMs] = [Date.now(), performance.now()]
  const id = String(await redis.eval(CLOCK, 1, `${prefix}:clock`))
  return Number(id.split('-')[0]) - askedMs - (performance.now() - startedMs) / 2
}
