import { execFile } from 'node:child_process'
import {
  chmod,
  copyFile,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { examineLog } from '#src/core/rawlog/examine.ts'
import { readLines } from '#src/core/rawlog/files.ts'
import { hashContent } from '#src/lib/hash.ts'
import { takeLock } from '#src/lib/lock.ts'
import type { Diagnosis } from '#src/operate/doctor/doctor.ts'
import { judgeSpace } from '#src/operate/doctor/place.ts'
import { checkWarehouse, judgeRoom } from '#src/operate/doctor/warehouse.ts'
import {
  diagnoseHere,
  inDatabase,
  latestOf,
  mend,
  type Prepared,
  prepareDirectory,
  problemsOf,
  warningsOf,
} from '#test/support/doctor.ts'
import { contextHere } from '#test/support/here.ts'
import { filesBelow } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'

let prepared: Prepared
beforeAll(async () => {
  prepared = await prepareDirectory()
  return prepared.remove
})
beforeEach(() => prepared.restore())

const look = (quick = false) => diagnoseHere(prepared.environment, quick)
const at = (...names: string[]) => join(prepared.directory, ...names)

/** Changes one byte in the middle of a file. */
async function flipByte(path: string): Promise<void> {
  const bytes = await readFile(path)
  bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 0x10, bytes.length >> 1)
  await chmod(path, 0o644)
  await writeFile(path, bytes)
  await chmod(path, 0o444)
}

async function checksumsBelow(directory: string): Promise<[string, string][]> {
  return [...(await filesBelow(directory))].map(([path, bytes]) => [path, hashContent(bytes)])
}

/** Checks that exactly these subjects are reported, each with matching words. */
function expectFound(findings: Diagnosis['findings'], expected: Readonly<Record<string, RegExp>>): void {
  const found = Object.fromEntries(findings.map(({ subject, what }) => [subject, what]))
  expect(Object.keys(found).sort()).toEqual(Object.keys(expected).sort())
  for (const [subject, words] of Object.entries(expected)) expect(found[subject]).toMatch(words)
}

describe('doctor', () => {
  it('reports an intact directory as fine, and changes nothing in it', async () => {
    const before = await checksumsBelow(prepared.directory)
    const { code, stdout, stderr } = await runShared(['doctor'], prepared.environment)
    expect(code).toBe(0)
    expect(stderr).toBe(
      'Read the raw log\nRebuild a copy of the warehouse, to compare\nCheck the snapshots\n',
    )
    expect(stdout).toMatch(/✓ raw log +6 segments without a gap; 24 lines, all readable/)
    expect(stdout).toMatch(/✓ rows +17 tables match the raw log, row for row/)
    expect(stdout).toMatch(/✓ snapshot +3 snapshots match their manifests/)
    expect(stdout).toMatch(/✓ calendar +Holidays are known from 2020 to 2035/)
    expect(stdout).toMatch(/No problems found\.\n$/)
    expect(await checksumsBelow(prepared.directory)).toEqual(before)
  })

  it('finds damage in a snapshot and in rows, and its advice repairs that', async () => {
    const { path, notices } = await latestOf(prepared.directory)
    const [october, november] = notices as [string, string]
    const items = join(path, 'items/2026-11.parquet')
    const [alerts, strange] = [join(path, 'alerts/2026-10.parquet'), join(path, 'alerts/copy.parquet')]
    await flipByte(october)
    await rm(november)
    await truncate(items, 100)
    await chmod(items, 0o444)
    await copyFile(alerts, strange)
    await chmod(alerts, 0o644)
    await inDatabase(join(path, 'catalog.duckdb'), `CREATE OR REPLACE VIEW quarantine AS SELECT 1 AS one`)
    await inDatabase(
      at('warehouse.duckdb'),
      `UPDATE editais SET objeto = 'changed by hand' WHERE edital_id = 'n00003'`,
    )

    const found = await look()
    const problems = problemsOf(found).filter(({ check }) => check === 'snapshot')
    expectFound(problems, {
      [october]: /differs from what was published/,
      [november]: /is missing/,
      [items]: /has 100 bytes instead of \d+/,
      [strange]: /is not in the manifest/,
      [join(path, 'catalog.duckdb')]: /differs from what was published/,
    })
    const others = problemsOf(found).filter(({ check }) => check !== 'snapshot')
    expect(others.map(({ check }) => check).sort()).toEqual(['catalog', 'rows'])
    const rows = others.find(({ check }) => check === 'rows')?.what
    expect(rows).toMatch(/^editais: 1 row not in the raw log, 1 row of the raw log missing, such as .*n00003/)
    expect(others.map(({ what }) => what)).toContainEqual(
      expect.stringMatching(/reads quarantine from files other than its own/),
    )
    expect(warningsOf(found)).toMatchObject([{ subject: alerts, mend: `chmod 444 ${alerts}` }])

    await mend(prepared.environment, [...problemsOf(found), ...warningsOf(found)])
    const mended = await look()
    expect(problemsOf(mended)).toEqual([])
    // A superseded snapshot stays as it is: no reader uses it.
    expect(warningsOf(mended).every(({ subject }) => subject.startsWith(path))).toBe(true)
    expect((await latestOf(prepared.directory)).path).not.toBe(path)
  })

  it.each<{ state: string; spoil: () => Promise<unknown>; expected: RegExp }>([
    { state: 'gone', spoil: () => rm(at('lake/latest')), expected: /is missing: readers find no snapshot/ },
    {
      state: 'linking to nothing',
      spoil: () => rm(at('lake/snapshots'), { recursive: true }).then(() => mkdir(at('lake/snapshots'))),
      expected: /which is missing/,
    },
    {
      state: 'a directory',
      spoil: async () => {
        const { path } = await latestOf(prepared.directory)
        await rm(at('lake/latest'))
        await rename(path, at('lake/latest'))
      },
      expected: /is not a link/,
    },
    {
      state: 'linking elsewhere',
      spoil: async () => {
        const { path } = await latestOf(prepared.directory)
        await rm(at('lake/latest'))
        await symlink(path, at('lake/latest'))
      },
      expected: /points to \//,
    },
    {
      state: 'without a manifest',
      spoil: async () => rm(join((await latestOf(prepared.directory)).path, 'manifest.json')),
      expected: /has no manifest/,
    },
  ])('finds `latest` $state, and its advice repairs that', async ({ spoil, expected }) => {
    await spoil()
    const problems = problemsOf(await look(true))
    expect(problems).toMatchObject([{ check: 'latest', subject: at('lake/latest') }])
    expect(problems[0]?.what).toMatch(expected)
    await mend(prepared.environment, problems)
    expect(problemsOf(await look(true))).toEqual([])
  })

  it('finds an unusable warehouse, and one that is only behind', async () => {
    await inDatabase(at('warehouse.duckdb'), `UPDATE meta SET schema_hash = 'of another version'`)
    const other = await look(true)
    expect(other.well).toBe(true)
    expectFound(warningsOf(other), { [at('warehouse.duckdb')]: /the next run rebuilds it/ })

    await rm(at('warehouse.duckdb'))
    expectFound(warningsOf(await look(true)), { [at('warehouse.duckdb')]: /the next run rebuilds it/ })

    await prepared.restore()
    await rm(at('raw/000006.ndjson.zst'))
    const longer = problemsOf(await look(true))
    expectFound(longer, { [at('warehouse.duckdb')]: /built from 6 segments, but the raw log holds 5/ })
    expect(longer[0]?.mend).toContain('accept the loss with `editais rebuild`')

    await writeFile(at('warehouse.duckdb'), 'no database')
    const broken = problemsOf(await look(true))
    expectFound(broken, { [at('warehouse.duckdb')]: /cannot be opened/ })
    await mend(prepared.environment, broken)
    expect(problemsOf(await look(true))).toEqual([])
  })

  it('reports what dead processes left, as harmless', async () => {
    await mkdir(at('tmp'), { recursive: true })
    const left = ['tmp/listed.ndjson', 'tmp/warehouse.next.duckdb', 'raw/000007.ndjson.zst.part']
    for (const path of [...left, 'raw/notes.txt', 'state.json']) await writeFile(at(path), '{')
    await mkdir(at('lake/snapshots/20260101T000000Z-000001'))
    await writeFile(at('lock.holder.json'), '{"pid": 4194305, "host": "h", "what": "sync", "since": "then"}')

    const { code, stdout } = await runShared(['doctor', '--quick', '--json'], prepared.environment)
    const found = JSON.parse(stdout) as Diagnosis
    expect({ code, well: found.well }).toEqual({ code: 0, well: true })
    expectFound(warningsOf(found), {
      ...Object.fromEntries(left.map(path => [at(path), /harmless/])),
      [at('raw/notes.txt')]: /is not part of the log/,
      [at('lake/snapshots/20260101T000000Z-000001')]: /never finished\. This is harmless/,
      [at('lock')]: /sync \(process 4194305 on h, since then\).*harmless/,
      [at('state.json')]: /the next run writes it again/,
    })
  })

  it('reports a directory that was moved, which a publish repairs', async () => {
    const environment = { ...prepared.environment, COMPANY: 'moved' }
    await rename(prepared.directory, at('../moved'))
    const found = problemsOf(await diagnoseHere(environment, true))
    expect(found.map(({ check }) => check)).toContain('snapshot')
    expect(found.map(({ what }) => what).join('\n')).toContain('was published as')
    await mend(environment, found)
    const mended = await diagnoseHere(environment, true)
    expect(problemsOf(mended)).toEqual([])
    expect(warningsOf(mended).map(({ what }) => what)).toContainEqual(
      expect.stringContaining('was last written for company acme'),
    )
    await rm(at('../moved'), { recursive: true })
  })

  it('quotes paths with spaces for the shell', async () => {
    const dataDir = join(prepared.directory, "../with space, and o'clock")
    const link = join(dataDir, 'acme/lake/latest')
    await mkdir(dataDir)
    await rename(prepared.directory, join(dataDir, 'acme'))
    await rm(link)
    await mkdir(link)
    const found = problemsOf(await diagnoseHere({ ...prepared.environment, DATA_DIR: dataDir }, true))
    const mends = found.filter(({ subject }) => subject === link).map(({ mend }) => mend)
    expect(mends).toEqual([expect.stringMatching(/^rm -r '\/.*, then `editais publish`$/)])
    await promisify(execFile)('sh', ['-c', mends[0]?.replace(/, then .*/, '') ?? ''])
    expect(await readdir(join(dataDir, 'acme/lake'))).toEqual(['snapshots'])
    await rm(dataDir, { recursive: true })
  })

  it('keeps its findings if its rebuild fails, and gives the reason', async () => {
    const path = at('raw/000003.ndjson.zst')
    const lines = (await Array.fromAsync(readLines(path))).map(line =>
      line.replace(/"at":"[^"]*"/, '"at":"then"'),
    )
    await writeFile(path, await promisify(zlib.zstdCompress)(lines.map(line => `${line}\n`).join('')))
    await rm(at('lake/latest'))
    const found = problemsOf(await look())
    expect(found.map(({ check }) => check).sort()).toEqual(['latest', 'rows'])
    expect(found.map(({ what }) => what)).toContainEqual(
      expect.stringMatching(/^was not compared with the raw log: the rebuild from it failed: .*then/),
    )
    const tight = judgeRoom('/data/warehouse.duckdb', {
      freeBytes: 500 * 1024 ** 2,
      warehouseBytes: 1024 ** 3,
    })
    expect(tight).toMatchObject({ status: 'warning', what: expect.stringContaining('needs 1,280 MiB') })
    expect(judgeRoom('/data/warehouse.duckdb', { freeBytes: 1024 ** 3, warehouseBytes: 1024 })).toBeNull()
  })

  it('rechecks sealed segments if a run may still be going on', async () => {
    const { paths, settings, signal } = contextHere(prepared.environment)
    const examined = (await examineLog({ directory: paths.raw })).slice(0, 3)
    const options = { ...settings, ...{ paths, signal, examined, scratch: null, newId: () => 'doctor' } }
    const [held, free] = await Promise.all(
      [true, false].map(isHeld => checkWarehouse({ ...options, isHeld })),
    )
    expect(held?.findings).toMatchObject([{ status: 'problem' }])
    expect(free?.findings).toMatchObject([{ status: 'ok', what: 'Opens; 6 of 6 segments applied' }])
  })

  it('adds --company to its commands if they would otherwise use another company', async () => {
    await rm(at('lake/latest'))
    const environment = { ...prepared.environment, COMPANY: 'other' }
    const [named, own] = await Promise.all([
      runShared(['doctor', '--quick', '--company', 'acme'], environment),
      runShared(['doctor', '--quick'], prepared.environment),
    ])
    expect(named.stdout).toMatch(
      /\nRun these commands with --company acme: editais rebuild --company acme\.\n$/,
    )
    expect(own.stdout).not.toContain('--company')
  })

  it('warns if a rebuild would not fit on the disk', () => {
    const gibibyte = 1024 ** 3
    expect(judgeSpace('/data', { freeBytes: 3 * gibibyte, onceBytes: gibibyte }).status).toBe('ok')
    const tight = judgeSpace('/data', { freeBytes: 1.5 * gibibyte, onceBytes: gibibyte })
    expect(tight).toMatchObject({ status: 'warning', subject: '/data' })
    expect(tight.what).toContain('has 1,536 MiB free on its disk; a rebuild with its snapshot may need 2,048')
    expect(judgeSpace('/data', { freeBytes: 1000, onceBytes: 0 }).status).toBe('warning')
  })

  it('names the run that it gave up waiting for (4), and a company that does not exist (2)', async () => {
    const holder = { pid: process.pid, host: 'here', what: 'sync --company acme', since: 'now' }
    const signal = new AbortController().signal
    const lock = await takeLock(at('lock'), holder, { waitMs: 0, signal, nowMs: Date.now })
    try {
      const [held, nobody] = await Promise.all([
        runShared(['doctor', '--wait', '0'], prepared.environment),
        runShared(['doctor', '--company', 'nobody'], prepared.environment),
      ])
      expect(held).toMatchObject({ code: 4, stdout: '' })
      expect(held.stderr).toContain('held by sync --company acme')
      expect(nobody).toMatchObject({ code: 2, stdout: '' })
      expect(nobody.stderr).toMatch(/has no data of company nobody.*Check COMPANY and DATA_DIR/)
    } finally {
      await lock.release()
    }
  })
})
