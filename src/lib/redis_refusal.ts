const IN_A_CLUSTER =
  'it is part of a cluster. Set REDIS_URL to some of its nodes, as in redis://10.0.0.1:6379,10.0.0.2:6379?cluster, then restart'

/** The codes of error replies that mean a refusal, and what to do. */
const REDIS_REFUSALS: Readonly<Record<string, string>> = {
  OOM: 'its memory is full. Raise maxmemory',
  READONLY: 'it is a replica. Set REDIS_URL to the master',
  NOAUTH: 'it requires a password. Write it to a file, set REDIS_PASSWORD_FILE to the path, then restart',
  WRONGPASS:
    'the password (or the user in REDIS_URL) is wrong. Correct REDIS_PASSWORD_FILE, REDIS_PASSWORD or REDIS_URL, then restart',
  NOPERM:
    'its user lacks permissions. docs/operating/redis.md lists the ones it needs; grant them with ACL SETUSER',
  MISCONF: 'it cannot write its data file. Check its disk',
  LOADING: 'it is still loading its data. Wait until it is done',
  MASTERDOWN: 'it is a replica that cannot reach its master. Set REDIS_URL to the master',
  CLUSTERDOWN:
    'a part of the cluster has no master. Wait until a replica takes over, or start the missing node',
  CROSSSLOT: IN_A_CLUSTER,
  MOVED: IN_A_CLUSTER,
  NOREPLICAS: 'too few of its replicas are connected (min-replicas-to-write). Start them',
  DENIED:
    'it is in protected mode: without a password it accepts connections only from its own machine. Set one (requirepass), write it to the file of REDIS_PASSWORD_FILE, then restart',
  BUSY: 'a script is blocking it. Wait, or stop the script with SCRIPT KILL',
}

/** Before Redis 7.0, an error inside a script has a prefix. */
const IN_A_SCRIPT = 'ERR Error running script .*? -?'
/** A script may not run a command or use a key: before Redis 7.2, and since then and in Valkey. */
const NO_RIGHT = /user executing the script can't|^ERR ACL failure in script/
const REFUSED = new RegExp(
  `^(?:${IN_A_SCRIPT})?(?:${Object.keys(REDIS_REFUSALS).join('|')}) |${NO_RIGHT.source}|^ERR max number of clients|^ERR unknown command`,
)

/** Returns whether Redis rejected the command, and would reject a retry too. */
export function isRedisRefusal(text: string): boolean {
  return REFUSED.test(text)
}

/** Returns what an error reply from Redis means, and what to do. */
export function explainRedisRefusal(text: string): string {
  const plain = text.replace(new RegExp(`^${IN_A_SCRIPT}(?=[A-Z]+ )`), '')
  const code = NO_RIGHT.test(plain) ? 'NOPERM' : (plain.split(' ')[0] ?? '')
  const meaning = REDIS_REFUSALS[code]
  if (!meaning) return `Redis rejected the command: ${plain}.`
  // Name the missing permission.
  const which = /'([\w|]+)' (sub)?command|^NOPERM ([A-Z]+):/.exec(plain)
  const right = code === 'NOPERM' && which ? `, ${(which[1] ?? which[3] ?? '').toUpperCase()}` : ''
  return `Redis rejected the command (${code}${right}): ${meaning}.`
}
