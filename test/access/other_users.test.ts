import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'
import { idOf, notices } from '../support/notices.ts'
import {
  intrude,
  isRoot,
  modesBelow,
  pathsBelow,
  runWorker,
  STRANGER,
  startWorker,
  WORKER,
} from '../support/other_users.ts'
import { type SyncedCompany, startCompany } from '../support/synced.ts'

const stranger = { uid: STRANGER, gid: STRANGER }
const GROUP = 54_321

/** A company whose DATA_DIR is the worker's, where others can come to it. */
async function openCompany(settings: Environment = {}): Promise<SyncedCompany> {
  const place = await temporaryDirectory()
  // Else nobody but root would get as far as what is tested.
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

/** Everything that writes to DATA_DIR has written. */
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

/** As a version before left it, on a machine where anybody may do anything. */
async function openAll(company: SyncedCompany): Promise<void> {
  const directory = dataOf(company)
  for (const path of [directory, ...(await pathsBelow(directory))]) {
    await chmod(path, (await stat(path)).isDirectory() ? 0o777 : 0o666)
  }
}

const dataOf = ({ environment }: SyncedCompany) => environment.DATA_DIR as string

describe.runIf(isRoot)('another user of the machine', () => {
  test('opens nothing but the lake and the catalog over all companies, whatever the umask', async () => {
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
    // What BI reads is read by others; and so the intruder could come to all the rest.
    expect(got.toSorted()).toEqual(paths.filter(isPublic).toSorted())
    expect(loot.held.filter(path => !isPublic(path))).toEqual([])
  })

  test('opens nothing in directories of before once a run has opened them, and holds none of its locks', async () => {
    const company = await openCompany()
    await fill(company)
    await openAll(company)
    const before = await intrude(dataOf(company), stranger)
    const databases = ['acme/lock', 'acme/warehouse.duckdb', 'api_keys.sqlite']
    expect(before.held).toEqual(expect.arrayContaining(databases.map(name => join(dataOf(company), name))))
    // That is what it is about: who holds a lock from before keeps it, and runs out.
    expect(await runWorker(['sync', '--wait', '0'], company.environment)).toMatchObject({ code: 4 })
    await before.leave()
    // What its reading made beside the keys is its own, so they are not opened with that.
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
    // It is still there, with all the locks that it could get.
    company.world.update(idOf(1), { edital: { objeto: 'Mudou' } })
    await run(company, ['sync'])
    await run(company, ['keys', 'create', '--description', 'third'])
  })

  test('may own DATA_DIR, where the worker may not even list it', async () => {
    const company = await openCompany()
    const directory = dataOf(company)
    await mkdir(join(directory, 'acme'))
    await chown(join(directory, 'acme'), WORKER, WORKER)
    await chown(directory, STRANGER, STRANGER)
    await chmod(directory, 0o711)
    await run(company, ['sync'])
    expect((await stat(directory)).mode & 0o777).toBe(0o711)
  })

  test('reads the lake only as LAKE_MODE and LAKE_GROUP say, older snapshots too', async () => {
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

    // Root may give any group.
    const settings = { LAKE_MODE: '0750', LAKE_GROUP: String(GROUP) }
    if (WORKER !== 0) {
      const refused = await runWorker(['sync'], { ...company.environment, ...settings })
      expect(refused).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/^.*LAKE_GROUP: .*set to 54321 \(EPERM\).*Make this user a member/s),
      })
      expect(company.sandbox.requests.total).toBeGreaterThan(0)
    }
    const asMember = { LAKE_MODE: '0750', LAKE_GROUP: WORKER === 0 ? String(GROUP) : String(WORKER) }
    const own = { uid: STRANGER, gid: Number(asMember.LAKE_GROUP) }
    await run(company, ['sync'], asMember)
    expect(await readdir(join(lake, 'snapshots'))).toHaveLength(2)
    expect(await seenBy(own)).toEqual(await ofLake())
    expect(await seenBy(stranger)).toEqual([])

    await run(company, ['publish'], { LAKE_MODE: '700' })
    expect(await seenBy(own)).toEqual([])
    // Left out, it stays as it is.
    await run(company, ['publish'])
    expect(await seenBy(own)).toEqual([])
    await run(company, ['publish'], { LAKE_MODE: '755' })
    expect(await seenBy(stranger)).toEqual(await ofLake())
    for (const [path, mode] of await modesBelow(lake))
      expect(mode, path).toBe((await stat(path)).isDirectory() ? '755' : '444')
  })
})
