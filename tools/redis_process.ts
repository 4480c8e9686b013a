import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { promisify } from 'node:util'

const START_TIMEOUT_MS = 20_000
/** A first `docker run` also fetches the image. */
const DOCKER_START_TIMEOUT_MS = 180_000
const PORT_ATTEMPTS = 50

/**
 * Runs a server and waits for a word about it on stdin. It lives as long as that pipe: when its starter ends,
 * however it ended (Ctrl-C, kill -9), the pipe closes and the server is killed. Its own standard output is
 * given up, so that the end of that output is the end of the server. $1: a directory to remove afterwards, or empty.
 */
const KEEPER = `
remove=$1
shift
"$@" </dev/null &
server=$!
exec >&- 2>&-
read -r signal || signal=KILL
kill -s "$signal" "$server"
wait "$server"
[ -z "$remove" ] || rm -rf "$remove"
`

/** The same for a container: the client that was started is not the one that runs, so it is named. */
const CONTAINER_KEEPER = `
name=$1
shift
docker run --rm --name "$name" "$@" </dev/null &
exec >&- 2>&-
read -r signal || signal=KILL
docker kill --signal "$signal" "$name" >/dev/null 2>&1
wait
`

/** What the daemon needs of its Redis: it never evicts, and what was acknowledged survives a restart. */
const SETTINGS = [
  ...['--appendonly', 'yes', '--appendfsync', 'everysec', '--save', ''],
  ...['--maxmemory-policy', 'noeviction', '--daemonize', 'no'],
]

export type RedisProcess = {
  /** Ends it as a machine that shuts down would; resolves when it is gone. */
  stop(): Promise<void>
  /** Ends it with SIGKILL. */
  kill(): Promise<void>
}

/**
 * Starts Redis on a port of 127.0.0.1, with its files in a directory; resolves when it answers.
 * @throws Error with what it said, when it ends instead or takes too long.
 */
export async function startRedisProcess(options: {
  binary: string
  port: number
  directory: string
  /** What `AUTH` must give; without it, none is needed. */
  password?: string
  /** Remove the directory once it has ended. */
  removeDirectory?: boolean
  /** Settings besides; they win. */
  args?: readonly string[]
}): Promise<RedisProcess> {
  const { binary, port, directory, password, removeDirectory, args = [] } = options
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory]
  const secured = password === undefined ? [] : ['--requirepass', password]
  return await started(
    keep(KEEPER, [removeDirectory ? directory : '', binary, ...place, ...SETTINGS, ...secured, ...args]),
    START_TIMEOUT_MS,
  )
}

/** The same in a container, for machines that have Docker and no Redis. */
export async function startRedisContainer(port: number): Promise<RedisProcess> {
  const publish = ['-p', `127.0.0.1:${port}:6379`, 'redis:7-alpine', 'redis-server']
  const name = `editais-sync-test-redis-${port}`
  return await started(keep(CONTAINER_KEEPER, [name, ...publish, ...SETTINGS]), DOCKER_START_TIMEOUT_MS)
}

/** A process group of its own: Ctrl-C on the terminal is for the tests, which end it when they are done. */
function keep(script: string, args: readonly string[]): ChildProcess {
  return spawn('/bin/sh', ['-c', script, 'redis', ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
}

async function started(child: ChildProcess, timeoutMs: number): Promise<RedisProcess> {
  const closed = new Promise<void>(resolve => {
    child.once('close', () => resolve())
  })
  // A keeper that is already gone cannot read what it is told.
  child.stdin?.on('error', () => {})
  const end = async (signal: string) => {
    child.stdin?.end(`${signal}\n`)
    await closed
  }
  try {
    await ready(child, timeoutMs)
  } catch (error) {
    await end('KILL')
    throw error
  }
  return { stop: () => end('TERM'), kill: () => end('KILL') }
}

function ready(child: ChildProcess, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = ''
    const failed = (what: string) =>
      reject(new Error(`Redis ${what}. It said:\n${said.trim() || '(nothing)'}`))
    const timer = setTimeout(() => failed(`did not answer within ${timeoutMs / 1000} s`), timeoutMs)
    const listen = (text: string) => {
      said = `${said}${text}`.slice(-10_000)
      if (!/ready to accept connections/i.test(said)) return
      clearTimeout(timer)
      resolve()
    }
    child.stdout?.setEncoding('utf8').on('data', listen)
    child.stderr?.setEncoding('utf8').on('data', listen)
    child.once('error', reject)
    void Promise.all([child.stdout, child.stderr].map(stream => stream && once(stream, 'end'))).then(() => {
      clearTimeout(timer)
      failed('ended at once')
    })
  })
}

/**
 * A port of 127.0.0.1 that nothing listens on, below those that systems give to outgoing connections (32768
 * and up): nobody takes it while a server that is to come back is down.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    if (await canListen(port)) return port
  }
  throw new Error('No free port was found on 127.0.0.1 between 20000 and 32000.')
}

function canListen(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** Whether a Docker engine answers here, not only its command. */
export async function dockerWorks(): Promise<boolean> {
  try {
    await promisify(execFile)('docker', ['info', '--format', '{{.ServerVersion}}'], { timeout: 10_000 })
    return true
  } catch {
    return false
  }
}
