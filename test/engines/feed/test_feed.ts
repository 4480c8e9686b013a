import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, readdir, rm, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { segmentPath } from '#src/core/rawlog/files.ts'
import { keyIn, type Served, type Servers } from '#test/api/servers.ts'
import type { Result } from '#test/engines/result.ts'
import { obtainPython } from '#test/support/python_environment.ts'
import { installPackages } from '#test/support/system_packages.ts'
import { freePort } from '#tools/redis_process.ts'

/** The consumer of the documents, with a real Postgres, killed again and again while notices change. */

const EXAMPLE = join(import.meta.dirname, '../../../docs/examples/feed_to_postgres.py')
const PACKAGES = {
  'apt-get': ['postgresql'],
  dnf: ['postgresql-server'],
  apk: ['postgresql'],
  brew: ['postgresql'],
}
const PLACES = ['/usr/lib/postgresql', '/usr/local/opt/postgresql/bin', '/opt/homebrew/opt/postgresql/bin']
/** Requests per second: one page of changes names more notices, and it must go on all the same. */
const QUOTA = 10
const [ROUNDS, QUICK_ROUNDS] = [8, 4]
const LIVES_MS = 1500
const IN_STEP_WITHIN_MS = 60_000
const POLL_MS = 300
/** What is left of a damaged segment. */
const DAMAGED_BYTES = 20
const READY_WITHIN_MS = 20_000

export async function* testFeed(
  servers: Servers,
  _: string,
  { quick }: { readonly quick?: true },
): AsyncGenerator<Result> {
  const rounds = quick ? QUICK_ROUNDS : ROUNDS
  const bin = await obtainPostgres()
  const python = await obtainPython({
    name: 'psycopg 3.2.9',
    requirements: join(import.meta.dirname, 'requirements.txt'),
    module: 'psycopg',
    least: '3.9',
    user: 'The test of the feed',
  })
  // Of its own: others may not enter the directory of the tests, and Postgres is another user if this one is root.
  const data = await mkdtemp(join(tmpdir(), 'editais-sync-postgres-'))
  const programs = new Programs()
  try {
    const dsn = await startPostgres(programs, bin, data)
    const sandbox = await servers.startSandbox(['--notices-per-company', '40', '--live', '1'])
    const mirror = await servers.startMirror(sandbox)
    const quota = ['--max-rps', String(QUOTA)]
    const created = await servers.runBehindMirror(
      ['keys', 'create', '--description', 'CRM', ...quota],
      sandbox,
    )
    const consumer = () => programs.start(python, [EXAMPLE, mirror.url, dsn], { API_KEY: keyIn(created) })
    for (let round = 0; round < rounds; round += 1) {
      const running = consumer()
      await sleep((LIVES_MS * (round + 1)) / rounds)
      await running.kill()
      await servers.runBehindMirror(['sync', '--allow-mass-delete'], sandbox)
      // Then the cursor is gone, and the consumer begins anew.
      if (round === rounds / 2) await salvage(servers, sandbox)
    }
    const last = consumer()
    yield {
      title: `docs/examples/feed_to_postgres.py, killed ${rounds} times, keeps a Postgres in step, also with a quota, and when the log is salvaged`,
      wrong: await differences({ bin, dsn, mirror }, last.output),
    }
  } finally {
    await programs.stop()
    await rm(data, { recursive: true, force: true })
  }
}

/** A segment is damaged on the disk, and what can be read of it stays. */
async function salvage(servers: Servers, sandbox: Served): Promise<void> {
  await truncate(segmentPath(servers.rawLog, 2), DAMAGED_BYTES)
  await servers.runBehindMirror(['rebuild', '--salvage'], sandbox)
}

/** The directory of its programs. */
async function obtainPostgres(): Promise<string> {
  const found = await findPostgres()
  if (found) return found
  const problem = await installPackages('PostgreSQL', PACKAGES)
  const installed = problem === null ? await findPostgres() : null
  if (installed) return installed
  throw new Error(
    `The test of the feed needs PostgreSQL, but ${problem ?? 'it was not found after its installation'}.`,
  )
}

async function findPostgres(): Promise<string | null> {
  for (const place of PLACES) {
    const versions = await readdir(place).catch(() => [])
    for (const one of [...versions.map(version => join(place, version, 'bin')), place]) {
      if ((await readdir(one).catch(() => [] as string[])).includes('initdb')) return one
    }
  }
  return null
}

/** @returns where it listens: a port of this machine alone. */
async function startPostgres(programs: Programs, bin: string, data: string): Promise<string> {
  const user = await postgresUser()
  // It refuses to run as root.
  if (user) await chown(data, user.uid, user.gid)
  await promisify(execFile)(join(bin, 'initdb'), ['-D', data, '-U', 'test', '-A', 'trust', '--no-sync'], {
    ...user,
    cwd: '/',
  })
  const port = await freePort()
  const settings = ['-h', '127.0.0.1', '-p', String(port), '-k', '', '-F']
  programs.start(join(bin, 'postgres'), ['-D', data, ...settings], {}, user)
  const dsn = `postgresql://test@127.0.0.1:${port}/postgres`
  for (let waitedMs = 0; waitedMs < READY_WITHIN_MS; waitedMs += POLL_MS) {
    if ((await query(bin, dsn, 'SELECT 1').catch(() => null)) !== null) return dsn
    await sleep(POLL_MS)
  }
  throw new Error('Postgres did not start')
}

async function query(bin: string, dsn: string, sql: string): Promise<string> {
  const { stdout } = await promisify(execFile)(join(bin, 'psql'), [dsn, '-XAtc', sql], { maxBuffer: 1e9 })
  return stdout.trim()
}

type Sides = { readonly bin: string; readonly dsn: string; readonly mirror: Served }

/** What differs when the consumer has had time to catch up. */
async function differences({ bin, dsn, mirror }: Sides, output: () => string): Promise<string[]> {
  let wrong = ['']
  for (let waitedMs = 0; waitedMs < IN_STEP_WITHIN_MS && wrong.length > 0; waitedMs += POLL_MS) {
    await sleep(POLL_MS)
    // Again: the server may take a moment to serve what was published last.
    const there = await documentsOf(mirror)
    const sql = `SELECT coalesce(json_agg(json_build_array(id, notice, analysis) ORDER BY id), '[]') FROM editais`
    const rows = JSON.parse(await query(bin, dsn, sql).catch(() => '[]')) as [string, object, object | null][]
    if (there.size === 0) continue
    const here = new Map(rows.map(([id, ...documents]) => [id, JSON.stringify(documents)]))
    wrong = [...new Set([...there.keys(), ...here.keys()])]
      .filter(id => there.get(id) !== here.get(id))
      .map(id => `  ${id}: ${here.get(id)?.slice(0, 300)} instead of ${there.get(id)?.slice(0, 300)}\n`)
  }
  return wrong.length === 0 ? [] : [...wrong, `  ${output().slice(-1000)}\n`]
}

/** Notices and analyses, by id, as the mirror serves them. */
async function documentsOf({ url, key }: Served): Promise<Map<string, string>> {
  const get = async (path: string) => {
    const answer = await fetch(url + path, { headers: { 'x-api-key': key } })
    return answer.status === 200 ? ((await answer.json()) as Record<string, unknown>) : null
  }
  const { editais } = (await get('/api/v1/editais?limit=200')) as { editais: { id: string }[] }
  const documents = new Map<string, string>()
  for (const notice of editais) {
    const analysis = await get(`/api/v1/editais/${notice.id}/analysis`)
    documents.set(notice.id, JSON.stringify([notice, analysis]))
  }
  return documents
}

type User = { readonly uid: number; readonly gid: number }
type Running = { readonly output: () => string; readonly kill: () => Promise<void> }

/** Programs that run until they are killed. */
export class Programs {
  readonly #children: ChildProcess[] = []

  start(
    command: string,
    args: readonly string[],
    environment: Readonly<Record<string, string>>,
    user: User | null = null,
  ): Running {
    const { PATH = '', HOME = '' } = process.env
    const child = spawn(command, args, {
      cwd: '/',
      env: { PATH, HOME, ...environment },
      stdio: ['ignore', 'ignore', 'pipe'],
      ...user,
    })
    this.#children.push(child)
    let text = ''
    child.stderr.setEncoding('utf8').on('data', part => {
      text = (text + part).slice(-10_000)
    })
    return { output: () => text, kill: () => end(child, 'SIGKILL') }
  }

  async stop(): Promise<void> {
    await Promise.all(this.#children.map(child => end(child, 'SIGTERM')))
  }
}

async function end(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}

/** The user that Postgres's package made, if this one is root. */
async function postgresUser(): Promise<User | null> {
  if (process.getuid?.() !== 0) return null
  const idOf = async (which: string) =>
    Number((await promisify(execFile)('id', [which, 'postgres'])).stdout.trim())
  return { uid: await idOf('-u'), gid: await idOf('-g') }
}
