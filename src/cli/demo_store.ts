import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Environment } from '#config/settings.ts'
import { EXIT, FatalError, systemCode } from '#src/platform/errors.ts'

/** An object store for the demonstration, only on this machine. */
export type DemoStore = {
  /** The program that serves it. */
  readonly program: string
  /** Settings with which a lake is published there. */
  readonly settings: Environment
  /** How to reach it, as other programs need it. */
  readonly access: { readonly endpoint: string; readonly id: string; readonly secret: string }
  close(): Promise<void>
}

const BUCKET = 'editais'
const ID = 'demo'
const SECRET = 'only-for-the-demo'
const START_MS = 20_000
const POLL_MS = 100

type Program = {
  readonly command: string
  readonly args: (port: number, directory: string) => readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

/** S3 servers that may be installed; the first that is found is used. */
const PROGRAMS: readonly Program[] = [
  {
    command: 'versitygw',
    args: (port, directory) => ['--port', `127.0.0.1:${port}`, 'posix', directory],
    environment: { ROOT_ACCESS_KEY: ID, ROOT_SECRET_KEY: SECRET },
  },
  {
    command: 'minio',
    args: (port, directory) => ['server', '--quiet', '--address', `127.0.0.1:${port}`, directory],
    environment: { MINIO_ROOT_USER: ID, MINIO_ROOT_PASSWORD: SECRET, MINIO_BROWSER: 'off' },
  },
  {
    command: 'moto_server',
    args: port => ['-H', '127.0.0.1', '-p', String(port)],
    environment: {},
  },
]

/**
 * Starts an S3 server that is installed, with an empty bucket.
 * @param directory for its files; it must exist.
 * @throws FatalError (usage) if none is installed.
 */
export async function startDemoStore(directory: string): Promise<DemoStore> {
  const data = join(directory, 's3')
  await mkdir(data)
  for (const program of PROGRAMS) {
    const port = await freePort()
    const child = await start(program, port, data)
    if (child === null) continue
    const close = () => end(child)
    try {
      const endpoint = `http://127.0.0.1:${port}`
      await untilReady(program.command, child, endpoint)
      await createBucket(endpoint)
      const settings = await settingsFor(directory, endpoint)
      return { program: program.command, settings, access: { endpoint, id: ID, secret: SECRET }, close }
    } catch (error) {
      await close()
      throw error
    }
  }
  const names = PROGRAMS.map(({ command }) => command).join(', ')
  throw new FatalError(
    `No S3 server is installed (${names}). Install one, for example with \`pip install 'moto[server,s3]'\`, or set LAKE_URL for your own runs.`,
    EXIT.usage,
  )
}

/** Returns null if it is not installed. */
async function start(
  { command, args, environment }: Program,
  port: number,
  directory: string,
): Promise<ChildProcess | null> {
  const { PATH = '', HOME = '' } = process.env
  const child = spawn(command, args(port, directory), {
    env: { PATH, HOME, ...environment },
    stdio: 'ignore',
    // Ctrl-C ends the demonstration, which then ends the server.
    detached: true,
  })
  try {
    await once(child, 'spawn')
    return child
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw new FatalError(`${command} cannot be started: ${systemCode(error)}.`)
  }
}

async function untilReady(command: string, child: ChildProcess, endpoint: string): Promise<void> {
  for (let waitedMs = 0; waitedMs < START_MS && child.exitCode === null; waitedMs += POLL_MS) {
    if (await fetch(endpoint).then(Boolean, () => false)) return
    await sleep(POLL_MS)
  }
  const how =
    child.exitCode === null ? `did not answer within ${START_MS / 1000} s` : 'exited before it answered'
  throw new FatalError(`${command} ${how}. Start it by hand to see why.`)
}

async function createBucket(endpoint: string): Promise<void> {
  const { CreateBucketCommand, S3Client } = await import('@aws-sdk/client-s3')
  const credentials = { accessKeyId: ID, secretAccessKey: SECRET }
  const client = new S3Client({ endpoint, credentials, region: 'us-east-1', forcePathStyle: true })
  try {
    await client.send(new CreateBucketCommand({ Bucket: BUCKET }))
  } finally {
    client.destroy()
  }
}

async function settingsFor(directory: string, endpoint: string): Promise<Environment> {
  const [id, secret] = [join(directory, 's3_id'), join(directory, 's3_secret')]
  await writeFile(id, ID)
  await writeFile(secret, SECRET)
  return {
    LAKE_URL: `s3://${BUCKET}/bi`,
    LAKE_FORMATS: 'iceberg,delta',
    S3_ENDPOINT: endpoint,
    S3_ACCESS_KEY_ID_FILE: id,
    S3_SECRET_ACCESS_KEY_FILE: secret,
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), 5000)
  await ended
  clearTimeout(timer)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
