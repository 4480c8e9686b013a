import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { readStatus } from '#src/operate/status.ts'
import { syncHere } from '#test/support/here.ts'
import { type StandIn, startMetabase } from '#test/support/metabase/stand_in.ts'
import { noticeEntry, notices } from '#test/support/notices.ts'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startSynced } from '#test/support/synced.ts'

const DAY_MS = 24 * 3600 * 1000

type Followed = {
  readonly company: SyncedCompany
  readonly metabase: StandIn
  readonly environment: Environment
  /** The file that Metabase's database reads. */
  reads(): unknown
  status(): ReturnType<typeof readStatus>
}

/** A company with a snapshot, and a Metabase set up for it by `editais metabase`. */
async function startFollowed(): Promise<Followed> {
  const company = await startSynced(notices(1, 3))
  const metabase = await startMetabase()
  const directory = await temporaryDirectory()
  const passwordFile = join(directory, 'password')
  await writeFile(passwordFile, 'segredo-da-casa-1')
  const settings = {
    ...company.environment,
    METABASE_URL: metabase.url,
    METABASE_API_KEY_FILE: join(directory, 'key'),
  }
  const admin = ['--admin', 'dados@example.com', '--admin-password-file', passwordFile]
  const set = await runShared(['metabase', '--json', ...admin], settings)
  expect(set).toMatchObject({ code: 0 })
  const { databaseId } = JSON.parse(set.stdout) as { databaseId: number }
  metabase.writes()
  const paths = companyPaths(company.environment.DATA_DIR ?? '', 'acme')
  return {
    company,
    metabase,
    environment: settings,
    reads: () => {
      const database = metabase.state.databases.find(({ id }) => id === databaseId)
      return (database?.details as { database_file?: string } | undefined)?.database_file
    },
    status: () => readStatus(paths),
  }
}

test('each publish points Metabase at the new snapshot, and a run that publishes nothing leaves it alone', async () => {
  const { company, metabase, environment, reads, status } = await startFollowed()
  const first = reads()
  await syncHere(environment)
  expect(metabase.writes()).toEqual([])
  company.world.put(noticeEntry(4))
  expect((await syncHere(environment)).report.status).toBe('ok')
  expect(metabase.writes()).toEqual([expect.stringMatching(/^PUT \/api\/database\/\d+$/)])
  expect(reads()).not.toBe(first)
  expect(reads()).toBe(join((await status()).snapshot.directory, 'catalog.duckdb'))
  await syncHere(environment)
  expect(metabase.writes()).toEqual([])
  expect((await status()).metabase).toMatchObject({ reads: [reads()], error: null })
  expect(metabase.violations).toEqual([])
})

const TROUBLES: readonly (readonly [StandIn['intercept'], RegExp])[] = [
  [request => Boolean(request.socket.destroy()), /Metabase does not answer/],
  [(_, response) => Boolean(response.writeHead(401).end('Unauthenticated')), /METABASE_API_KEY_FILE/],
]

test('if Metabase is down or refuses, data is still published, and the next run repairs it', async () => {
  const { company, metabase, environment, reads, status } = await startFollowed()
  await syncHere(environment)
  let count = 3
  for (const [trouble, message] of TROUBLES) {
    const old = reads()
    metabase.intercept = trouble
    count += 1
    company.world.put(noticeEntry(count))
    expect((await syncHere(environment)).report.status).toBe('ok')
    expect(await company.query('SELECT count(*) AS n FROM editais')).toEqual([{ n: count }])
    expect(reads()).toBe(old)
    expect((await status()).metabase).toMatchObject({ reads: [old], error: expect.stringMatching(message) })
    metabase.intercept = () => false
    await syncHere(environment)
    expect(reads()).toBe(join((await status()).snapshot.directory, 'catalog.duckdb'))
    expect((await status()).metabase).toMatchObject({ error: null })
  }
  // Details of databases are hidden from a key without the rights: what it reads is then unknown, not nothing.
  const [key] = metabase.state.apiKeys
  const old = reads()
  Object.assign(key as object, { admin: false })
  company.world.put(noticeEntry(count + 1))
  metabase.writes()
  await syncHere(environment)
  expect([reads(), metabase.writes()]).toEqual([old, []])
  const error = expect.stringMatching(
    /may not administer Metabase.*nothing was changed there\..*Administrators/,
  )
  expect((await status()).metabase).toMatchObject({ reads: [old], error })
  Object.assign(key as object, { admin: true })

  metabase.intercept = TROUBLES[0]?.[0] as StandIn['intercept']
  await syncHere(environment)
  const shown = await runShared(['status'], environment)
  expect(shown.stdout).toMatch(/Metabase {2}reads .*\n {10}last attempt \S+: Metabase does not answer/)
})

test('the snapshot that Metabase still reads is not removed, however old', async () => {
  const { company, metabase, environment, reads } = await startFollowed()
  await syncHere(environment)
  const old = String(reads())
  metabase.intercept = (_, response) => Boolean(response.writeHead(503).end())
  for (const day of [1, 2, 3, 4]) {
    company.world.put(noticeEntry(10 + day))
    await syncHere(environment, {}, { now: () => new Date(Date.now() + day * 2 * DAY_MS) })
  }
  const lake = companyPaths(environment.DATA_DIR ?? '', 'acme').lake
  const kept = await readdir(join(lake, 'snapshots'))
  expect(kept.some(name => old.includes(name))).toBe(true)
  expect(kept.length).toBeLessThanOrEqual(4)
})

test('a missing or wrong setup is reported, and no data is lost', async () => {
  const { company, environment, status } = await startFollowed()
  const { metabase: file } = companyPaths(environment.DATA_DIR ?? '', 'acme')
  await rm(environment.METABASE_API_KEY_FILE ?? '')
  await syncHere(environment)
  expect((await status()).metabase).toMatchObject({
    error: expect.stringMatching(/METABASE_API_KEY_FILE .* cannot be read: ENOENT/),
  })
  // A damaged file does not fail the run, but nothing else knows the database.
  await writeFile(file, '{"reads":5}')
  await syncHere(environment)
  expect((await status()).metabase).toMatchObject({
    error: expect.stringContaining('Run `editais metabase`'),
  })
  const { code, stderr } = await runShared(['sync'], { ...environment, METABASE_URL: 'metabase' })
  expect({ code, stderr }).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('METABASE_URL=metabase: must be'),
  })
  // Without METABASE_URL there is nothing to report.
  await syncHere(company.environment)
  expect((await status()).metabase).toBeNull()
})
