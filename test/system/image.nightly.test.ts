import { once } from 'node:events'
import { lstatSync, readdirSync } from 'node:fs'
import { lstat, mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deriveSandboxKey } from '#src/sandbox/server.ts'
import { readCompose, readDemo } from '#test/support/docker.ts'
import { buildImage, type Image } from '#test/support/image.ts'
import { noticeEntry } from '#test/support/notices.ts'
import type { Environment, Started } from '#test/support/project.ts'
import { openRedis } from '#test/support/redis.ts'
import { KEY, startCompany } from '#test/support/synced.ts'
import { freePort } from '#tools/redis_process.ts'

/** Some hundred megabytes are copied twice. */
const BUILD_TIMEOUT_MS = 180_000
const DEADLINE_MS = 30_000
const POLL_MS = 100

const { services } = await readCompose()
const demo = (await readDemo()).services
let image: Image

beforeAll(async () => {
  image = await buildImage()
  // The test Redis has no password, and accepts any.
  await place('/run/redis/password', 'not-needed')
}, BUILD_TIMEOUT_MS)

afterAll(() => image?.remove())

test('the image contains only what runs, and all of it is read-only', () => {
  const app = image.inside('/app')
  expect(readdirSync(app).sort()).toEqual(['config', 'jobs', 'node_modules', 'package.json', 'schema', 'src'])
  const paths = readdirSync(app, { recursive: true, encoding: 'utf8' })
  const own = paths.filter(path => !path.startsWith('node_modules'))
  expect(own.filter(path => /\.(?:env|ya?ml|test\.ts)$/.test(path))).toEqual(['schema/openapi.yaml'])
  const installed = readdirSync(join(app, 'node_modules'))
  for (const name of ['vitest', 'typescript', 'node', '@biomejs']) expect(installed).not.toContain(name)
  // Of Node.js only the program: 130 MB less.
  expect(readdirSync(image.inside('/usr/local/bin')).sort()).toEqual(['editais', 'node'])
  const writable = paths.filter(path => {
    const { mode } = lstatSync(join(app, path))
    return (mode & 0o222) !== 0 && (mode & 0o170000) !== 0o120000
  })
  expect(writable).toEqual([])
})

test('a command runs on a read-only file system, even without temporary files', async () => {
  const { ended } = image.start(['node', 'src/cli/main.js', '--help'], { TMPDIR: '/nowhere' })
  expect(await ended).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('sync') })
})

test('editais runs every command, and its help shows that name', async () => {
  const all = await image.start(['editais', '--help']).ended
  expect(all).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^Usage: editais /) })
  const one = await image.start(['editais', 'status', '--help']).ended
  expect(one).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Usage: editais status \[options\]/) })
  const wrong = await image.start(['editais', 'stauts']).ended
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('status') })
  const empty = { API_BASE_URL: 'http://127.0.0.1:9', API_KEY: KEY, COMPANY: 'nobody' }
  const { stderr } = await image.start(['editais', 'query', 'SELECT 1'], empty).ended
  expect(stderr).toContain('`editais sync --full`')
})

test('the demonstration of docker-compose.demo.yml runs a sandbox and a worker until they are stopped', async () => {
  const { prefix, url: redisUrl } = await openRedis()
  const { command = [], healthcheck } = demo.sandbox
  const port = String(await freePort())
  const here = (word: string) => word.replace('0.0.0.0', '127.0.0.1').replaceAll('8787', port)
  const sandbox = image.start([...command.map(here), '--port', port])
  await untilHealthy(sandbox, { port, check: healthcheck?.test.slice(1).map(here) ?? [] })

  const worker = await startWorker({
    ...demo.worker.environment,
    API_BASE_URL: `http://127.0.0.1:${port}`,
    REDIS_URL: redisUrl,
    REDIS_PREFIX: prefix,
  })
  await until(() => exists(image.inside('/data/aurora/lake/latest/manifest.json')), worker, 'a snapshot')
  // `up --wait` waits for this: then there is something to see.
  const [kind, ...check] = demo.worker.healthcheck?.test ?? []
  expect(kind).toBe('CMD')
  const before = await image.start(check, { ...demo.worker.environment, DATA_DIR: '/nowhere' }).ended
  expect([before.code, (await image.start(check, demo.worker.environment).ended).code]).toEqual([1, 0])
  const { stderr, stdout } = await stopped(worker)
  expect(`${stdout}${stderr}`).not.toContain(deriveSandboxKey('1', 'aurora'))
  await stopped(sandbox)
})

test('the worker of docker-compose.yml waits for its companies, and mirrors them with the key in a file', async () => {
  const { prefix, url: redisUrl } = await openRedis()
  const company = await startCompany([noticeEntry(1), noticeEntry(2)])
  const worker = await startWorker({
    ...services.worker.environment,
    REDIS_URL: redisUrl,
    REDIS_PREFIX: prefix,
  })
  expect(company.sandbox.requests.total).toBe(0)

  await place('/run/secrets/acme', `${KEY}\n`)
  await place(
    '/config/companies.yaml',
    `companies:
  acme: { api_base_url: "${company.sandbox.url}", api_key_file: "${image.inside('/run/secrets/acme')}" }\n`,
  )
  await until(() => exists(image.inside('/data/acme/lake/latest/manifest.json')), worker, 'a snapshot')
  const { stderr, stdout } = await stopped(worker)
  expect(`${stdout}${stderr}`).not.toContain(KEY)
  // Longer than its three waits together, so that a failing wait can report the worker's log.
}, 100_000)

/** Starts the image's own command, and waits until Docker would report it healthy. */
async function startWorker(environment: Environment): Promise<Started> {
  const settings = { ...environment, HTTP_HOST: '127.0.0.1', HTTP_PORT: String(await freePort()) }
  const worker = image.start(image.command, settings)
  await untilHealthy(worker, { port: settings.HTTP_PORT, check: image.healthcheck, settings })
  return worker
}

/** Each check starts a process, so it only starts once the port is open. */
async function untilHealthy(
  service: Started,
  about: { port: string; check: readonly string[]; settings?: Environment },
): Promise<void> {
  const { port, check, settings = {} } = about
  await until(() => listens(Number(port)), service, `server on port ${port}`)
  const healthy = async () => (await image.start(check, settings).ended).code === 0
  await until(healthy, service, `success of ${check.join(' ')}`)
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** Throws with all output of the process if it ends or the time runs out first. */
async function until(
  fulfilled: () => Promise<boolean>,
  { child, ended }: Started,
  what: string,
): Promise<void> {
  const deadlineMs = Date.now() + DEADLINE_MS
  while (!(await fulfilled())) {
    if (child.exitCode === null && Date.now() < deadlineMs) await sleep(POLL_MS)
    else {
      child.kill('SIGKILL')
      throw new Error(`There was no ${what}: ${JSON.stringify(await ended, null, 2)}`)
    }
  }
}

/** Sends SIGTERM as `docker stop` does, and expects a clean exit well before Docker would kill it. */
async function stopped({ child, ended }: Started) {
  const atMs = Date.now()
  child.kill('SIGTERM')
  const end = await ended
  expect(end.code, end.stderr).toBe(0)
  expect(Date.now() - atMs).toBeLessThan(10_000)
  return end
}

async function place(path: string, text: string): Promise<void> {
  await mkdir(join(image.inside(path), '..'), { recursive: true })
  await writeFile(image.inside(path), text)
}

function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}
