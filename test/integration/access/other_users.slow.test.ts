import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { idOf, notices } from '#test/support/notices.ts'
import {
  intrude,
  isRoot,
  modesBelow,
  pathsBelow,
  runWorker,
  STRANGER,
  startWorker,
  WORKER,
} from '#test/support/other_users.ts'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'

const stranger = { uid: STRANGER, gid: STRANGER }
const GROUP = 54_321

/** A company whose DATA_DIR belongs to the worker, and which others can reach. */
async function openCompany(settings: Environment = {}): Promise<SyncedCompany> {
  const place = await temporaryDirectory()
  // Otherwise only root could reach what is tested.
  await chmod(place, 0o711)
  const dataDir = join(place, 'data')
  await mkdir(dataDir, { mode: 0o755 })
  if (isRoot) await chown(dataDir, WORKER, WORKER)
  return await startCompany(notices(1, 4), { DATA_DIR: dataDir, ...settings })
}

async function run({ environment }: SyncedCompany, args: readonly string[], settings: Environment = {}) {
  const ended = await runWorker(args, { ...environment, ...settings })
  expect(ended, args.join(' ')).toMatchObject({ code: 0 })
}

/** Runs everything that writes to DATA_DIR. */
async function fill(company: SyncedCompany): Promise<void> {
  await run(company, ['sync'])
  await run(company, ['keys', 'create', '--description', 'ERP'])
  await run(company, ['report'])
  await run(company, ['catalog'])
  const server = startWorker(['serve'], { ...company.environment, HTTP_PORT: '0' })
  const mirror = join(dataOf(company), 'acme/mirror')
  while (server.exitCode === null && !existsSync(mirror)) await sleep(20)
  server.kill('SIGTERM')
  await once(server, 'close')
}

/** As after `chmod -R`: every user may do anything. */
async function openAll(company: SyncedCompany): Promise<void> {
  const directory = dataOf(company)
  for (const path of [directory, ...(await pathsBelow(directory))]) {
    await chmod(path, (await stat(path)).isDirectory() ? 0o777 : 0o666)
  }
}

const dataOf = ({ environment }: SyncedCompany) => environment.DATA_DIR as string

describe.runIf(isRoot)('another user of the machine', () => {
  test('opens only the lake and the catalog of all companies, whatever the umask', async () => {
    const company = await openCompany()
    await fill(company)
    const directory = dataOf(company)
    const lake = join(directory, 'acme/lake')
    const isPublic = (path: string) => path.startsWith(lake) || path === join(directory, 'catalog.duckdb')
    const paths = await pathsBelow(directory)
    const names = ['acme/warehouse.duckdb', 'acme/lock', 'acme/state.json', 'acme/report.html', 'acme/raw']
    const all = [...names, 'acme/mirror', 'api_keys.sqlite', 'catalog.duckdb']
    expect(paths).toEqual(expect.arrayContaining(all.map(name => join(directory, name))))

    const loot = await intrude(directory, stranger)
    expect(loot).toMatchObject({ entered: [], written: [] })
    const got = [...loot.listed, ...loot.read]
    expect(got.filter(path => !isPublic(path))).toEqual([])
    // BI tools read the public files. The intruder read all of them, so it could try all the rest.
    expect(got.toSorted()).toEqual(paths.filter(isPublic).toSorted())
    expect(loot.held.filter(path => !isPublic(path))).toEqual([])
  })

  test('opens nothing in old, open directories after a run closes them, and holds none of their locks', async () => {
    const company = await openCompany()
    await fill(company)
    await openAll(company)
    const before = await intrude(dataOf(company), stranger)
    const databases = ['acme/lock', 'acme/warehouse.duckdb', 'api_keys.sqlite']
    expect(before.held).toEqual(expect.arrayContaining(databases.map(name => join(dataOf(company), name))))
    // The problem itself: a lock taken before the directory was closed still blocks runs.
    expect(await runWorker(['sync', '--wait', '0'], company.environment)).toMatchObject({ code: 4 })
    await before.leave()
    // The intruder owns the files that its read created beside the keys, so they are not opened.
    const left = join(dataOf(company), 'api_keys.sqlite-shm')
    expect(await runWorker(['keys', 'list'], company.environment)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`belongs to user ${STRANGER}, so it is not opened`),
    })
    for (const path of [left, left.replace(/shm$/, 'wal')]) await rm(path)

    await openAll(company)
    await run(company, ['keys', 'create', '--description', 'CRM'])
    await run(company, ['sync'])
    const directory = dataOf(company)
    const loot = await intrude(directory, stranger)
    const shared = [join(directory, 'acme/lake'), join(directory, 'catalog.duckdb')]
    const isPublic = (path: string) => shared.some(one => path.startsWith(one))
    expect([...loot.listed, ...loot.read, ...loot.held].filter(path => !isPublic(path))).toEqual([])
    expect([loot.entered, loot.written]).toEqual([[], []])
    // The intruder is still there, with every lock that it could get.
    company.world.update(idOf(1), { edital: { objeto: 'Mudou' } })
    await run(company, ['sync'])
    await run(company, ['keys', 'create', '--description', 'third'])
  })

  test('may own a DATA_DIR that the worker cannot even list', async () => {
    const company = await openCompany()
    const directory = dataOf(company)
    await mkdir(join(directory, 'acme'))
    await chown(join(directory, 'acme'), WORKER, WORKER)
    await chown(directory, STRANGER, STRANGER)
    await chmod(directory, 0o711)
    await run(company, ['sync'])
    expect((await stat(directory)).mode & 0o777).toBe(0o711)
  })

  test('reads the lake only as LAKE_READERS allows, including older snapshots', async () => {
    const company = await openCompany()
    const directory = dataOf(company)
    const lake = join(directory, 'acme/lake')
    await run(company, ['sync'])
    company.world.update(idOf(1), {
      edital: { objeto: 'Mudou' },
      updatedAt: new Date('2026-11-20T12:00:00Z'),
    })
    const member = { uid: STRANGER, gid: GROUP }
    const ofLake = async () => (await pathsBelow(directory)).filter(path => path.startsWith(lake)).toSorted()
    const seenBy = async (user: typeof member) => {
      const { listed, read, entered, written } = await intrude(directory, user)
      expect([entered, written]).toEqual([[], []])
      return [...listed, ...read].toSorted()
    }

    // Root may set any group.
    const settings = { LAKE_READERS: `group:${GROUP}` }
    if (WORKER !== 0) {
      const refused = await runWorker(['sync'], { ...company.environment, ...settings })
      expect(refused).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/^.*LAKE_READERS: .*set to 54321 \(EPERM\).*Make this user a member/s),
      })
      expect(company.sandbox.requests.total).toBeGreaterThan(0)
    }
    const own = { uid: STRANGER, gid: WORKER === 0 ? GROUP : WORKER }
    await run(company, ['sync'], { LAKE_READERS: `group:${own.gid}` })
    expect(await readdir(join(lake, 'snapshots'))).toHaveLength(2)
    expect(await seenBy(own)).toEqual(await ofLake())
    expect(await seenBy(stranger)).toEqual([])

    await run(company, ['publish'], { LAKE_READERS: 'none' })
    expect(await seenBy(own)).toEqual([])
    // Without the setting, the mode does not change.
    await run(company, ['publish'])
    expect(await seenBy(own)).toEqual([])
    await run(company, ['publish'], { LAKE_READERS: 'all' })
    expect(await seenBy(stranger)).toEqual(await ofLake())
    for (const [path, mode] of await modesBelow(lake))
      expect(mode, path).toBe((await stat(path)).isDirectory() ? '755' : '444')
  })
})
