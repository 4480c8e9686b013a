import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { promisify } from 'node:util'

const START_TIMEOUT_MS = 20_000
/** A first `docker run` also fetches the image. */
const DOCKER_START_TIMEOUT_MS = 180_000
const PORT_ATTEMPTS = 50

/**
 * Runs a server and waits for a signal name on stdin. The server lives as long as that pipe: when its starter ends in
 * any way (Ctrl-C, kill -9), the pipe closes and the server is killed. The script closes its own stdout, so that the
 * end of the output is the end of the server. $1: a directory to remove afterwards, or empty.
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

/** A script that keeps a container: killing the client does not stop the container, so the container has a name. */
const CONTAINER_KEEPER = `
name=$1
shift
docker run --rm --name "$name" "$@" </dev/null &
exec >&- 2>&-
read -r signal || signal=KILL
docker kill --signal "$signal" "$name" >/dev/null 2>&1
wait
`

/** The settings that the daemon needs: nothing is evicted, and acknowledged writes survive a restart. */
const SETTINGS = [
  ...['--appendonly', 'yes', '--appendfsync', 'everysec', '--save', ''],
  ...['--maxmemory-policy', 'noeviction', '--daemonize', 'no'],
]

export type RedisProcess = {
  /** Stops it as a shutdown of the machine would; resolves when it has ended. */
  stop(): Promise<void>
  /** Kills it with SIGKILL. */
  kill(): Promise<void>
}

/**
 * Starts Redis on a port of 127.0.0.1, with its files in a directory; resolves when it answers.
 * @throws Error with its output if it ends instead or takes too long.
 */
export async function startRedisProcess(options: {
  binary: string
  port: number
  directory: string
  /** The password that `AUTH` must send; without it, none is needed. */
  password?: string
  /** Remove the directory once it has ended. */
  removeDirectory?: boolean
  /** Further settings; they take precedence. */
  args?: readonly string[]
  /** A file with the settings of a sentinel, which it rewrites; the others do not apply. */
  sentinel?: string
}): Promise<RedisProcess> {
  const { binary, port, directory, password, removeDirectory, args = [], sentinel } = options
  if (sentinel !== undefined)
    return await started(keep(KEEPER, ['', binary, sentinel, '--sentinel']), START_TIMEOUT_MS)
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory]
  const secured = password === undefined ? [] : ['--requirepass', password]
  return await started(
    keep(KEEPER, [removeDirectory ? directory : '', binary, ...place, ...SETTINGS, ...secured, ...args]),
    START_TIMEOUT_MS,
  )
}

/** Starts Redis in a container, for machines that have Docker and no Redis. */
export async function startRedisContainer(port: number): Promise<RedisProcess> {
  const publish = ['-p', `127.0.0.1:${port}:6379`, 'redis:7-alpine', 'redis-server']
  const name = `editais-sync-test-redis-${port}`
  return await started(keep(CONTAINER_KEEPER, [name, ...publish, ...SETTINGS]), DOCKER_START_TIMEOUT_MS)
}

/** Starts a process in its own group: Ctrl-C in the terminal is for the tests, which stop it when they end. */
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
  // A keeper that has already ended cannot read its stdin.
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
    let output = ''
    const failed = (what: string) =>
      reject(new Error(`Redis ${what}. Its output:\n${output.trim() || '(empty)'}`))
    const timer = setTimeout(() => failed(`did not answer within ${timeoutMs / 1000} s`), timeoutMs)
    const listen = (text: string) => {
      output = `${output}${text}`.slice(-10_000)
      if (!/ready to accept connections|Sentinel ID is/i.test(output)) return
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
 * Returns a free port of 127.0.0.1, below those that systems use for outgoing connections (32768 and up), so that it
 * stays free while a server is down and will restart on it.
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

/** Returns whether a Docker engine answers, not only whether the command exists. */
export async function dockerWorks(): Promise<boolean> {
  try {
    await promisify(execFile)('docker', ['info', '--format', '{{.ServerVersion}}'], { timeout: 10_000 })
    return true
  } catch {
    return false
  }
}
