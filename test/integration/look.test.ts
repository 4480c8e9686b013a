import { copyFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { companyPaths, makeDirectories } from '#src/core/company/company.ts'
import { readState, writeLook } from '#src/core/company/state.ts'
import { syncHere } from '#test/support/here.ts'
import { lookHere } from '#test/support/look.ts'
import { bareNotice, idOf, notices } from '#test/support/notices.ts'
import type { Environment } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'
import { asked } from '#test/support/truth.ts'

const NOON = new Date('2026-11-20T12:00:00Z')
const NOTHING_NEW = { isNew: false }
const NOT_ASKED = { isNew: true, hasAsked: false }
const SOMETHING_NEW = { isNew: true, hasAsked: true }

const pathsOf = ({ DATA_DIR = '' }: Environment) => companyPaths(DATA_DIR, 'acme')

/** A company whose last run left nothing to do. */
async function startSettled(count = 6, settings: Environment = {}): Promise<SyncedCompany> {
  return await startSynced(notices(1, count), settings)
}

/** Every file of the company, with its size and time. */
async function filesOf({ environment }: SyncedCompany): Promise<string[]> {
  const { root } = pathsOf(environment)
  const names = await readdir(root, { recursive: true })
  const files = names.map(async name => {
    const { size, mtimeMs } = await stat(join(root, name))
    return `${name} ${size} ${mtimeMs}`
  })
  return (await Promise.all(files)).sort()
}

describe('a look at a list that shows what the last run saw', () => {
  it('finds nothing new: it reads the list once, requests nothing else and writes nothing', async () => {
    const company = await startSettled(210)
    const before = await filesOf(company)
    expect(await lookHere(company.environment)).toMatchObject(NOTHING_NEW)
    expect(company.sandbox.requests.byKind).toEqual({ list: 2, notice: 0, analysis: 0, other: 0 })
    expect(await filesOf(company)).toEqual(before)
  })

  it('finds nothing new if the order, the form or unknown properties differ', async () => {
    const company = await startSettled(30)
    company.world.setOrder('id')
    expect(await lookHere(company.environment)).toMatchObject(NOTHING_NEW)
    company.faults.plan = [{ fault: 'pretty' }, { fault: 'clamp_limit', max: 7 }]
    expect(await lookHere(company.environment)).toMatchObject(NOTHING_NEW)
    for (const days of [3, 2]) {
      for (const id of company.world.ids()) company.world.update(id, { edital: { dias_restantes: days } })
      expect(await lookHere(company.environment)).toMatchObject(NOTHING_NEW)
    }
    // A run agrees.
    expect(await company.syncHere()).toMatchObject({ unchanged: 30, changed: 0, loaded: 0 })
  })

  it('counts as a good run, until a run reports more', async () => {
    const { environment, syncHere: run, faults } = await startSettled()
    const paths = pathsOf(environment)
    const before = await readState(paths)
    expect(before).toMatchObject({ looked_at: null })
    const run_id = before?.last_run.run_id ?? ''
    const at = '2026-12-01T00:00:00.000Z'
    await writeLook(paths, { at, run_id })
    expect(await readState(paths)).toEqual({ ...before, looked_at: at, last_good_at: at })
    const { stdout } = await runShared(['status'], environment)
    expect(stdout).toMatch(/^Last look nothing new at 2026-12-01T00:00:00.000Z$/m)
    expect(stdout).toMatch(/^Last good 2026-12-01T00:00:00.000Z$/m)
    faults.plan = [{ fault: 'status', status: 500, kinds: ['list'] }]
    expect(await run()).toMatchObject({ status: 'failed' })
    expect(await readState(paths)).toMatchObject({ looked_at: null, last_good_at: at })
    faults.plan = []
    await run()
    const after = await readState(paths)
    expect(after).toMatchObject({ looked_at: null, last_good_at: after?.last_run.finished_at })
  })
})

describe('a look leaves the list to a run', () => {
  it.each<[string, (company: SyncedCompany) => unknown]>([
    ['a notice is new', ({ world }) => world.put(bareNotice(999))],
    ['a notice changed', ({ world }) => world.update(idOf(1), { edital: { objeto: 'Outro' } })],
    ['only its updated_at changed', ({ world }) => world.update(idOf(1), { updatedAt: NOON })],
    ['a notice is gone', ({ world }) => world.remove(idOf(2))],
    ['a notice cannot be used', ({ world }) => world.update(idOf(1), { edital: { created_at: 'ontem' } })],
    ['the total is wrong', ({ faults }) => Object.assign(faults, { plan: [{ fault: 'total', by: 1 }] })],
    ['the API fails', ({ faults }) => Object.assign(faults, { plan: [{ fault: 'status', status: 500 }] })],
    [
      'the key is refused',
      ({ faults }) => Object.assign(faults, { plan: [{ fault: 'status', status: 401 }] }),
    ],
    ['a page is not JSON', ({ faults }) => Object.assign(faults, { plan: [{ fault: 'truncate' }] })],
    [
      'the server ignores offset',
      ({ faults }) =>
        Object.assign(faults, { plan: [{ fault: 'clamp_limit', max: 20 }, { fault: 'ignore_offset' }] }),
    ],
  ])('if %s', async (_, change) => {
    const company = await startSettled(45)
    change(company)
    expect(await lookHere(company.environment)).toMatchObject(SOMETHING_NEW)
  })

  it('at the first difference, without reading the rest', async () => {
    const company = await startSettled(45)
    company.world.put(bareNotice(999, { created_at: '2026-12-01T00:00:00Z' }))
    company.faults.plan = [{ fault: 'clamp_limit', max: 5 }]
    expect(await lookHere(company.environment)).toMatchObject(SOMETHING_NEW)
    expect(company.sandbox.requests.byKind.list).toBe(1)
  })

  it('if the envelope of the list differs from the contract in a new way, once', async () => {
    const company = await startSettled()
    const body = { editais: [], count: 0, total: 0, limit: 200, offset: 0 }
    const all = company.world.ids().map(id => company.world.entry(id)?.edital)
    company.faults.respond = ({ kind }) =>
      kind === 'list'
        ? { status: 200, body: JSON.stringify({ ...body, editais: all, count: 6, total: 6, novo: 1 }) }
        : undefined
    expect(await lookHere(company.environment)).toMatchObject(SOMETHING_NEW)
    await company.syncHere()
    expect(await lookHere(company.environment)).toMatchObject(NOTHING_NEW)
  })

  it('if another run ended while it read', async () => {
    const company = await startSettled()
    let runs = 0
    company.faults.onRequest = async () => {
      company.faults.onRequest = undefined
      runs += 1
      await syncHere(company.environment)
    }
    expect(await lookHere(company.environment)).toMatchObject(SOMETHING_NEW)
    expect(runs).toBe(1)
    expect(await lookHere(company.environment)).toMatchObject(NOTHING_NEW)
  })
})

describe('a look requests nothing', () => {
  it.each<[string, (company: SyncedCompany) => Promise<unknown>]>([
    ['there is no index', ({ environment }) => rm(pathsOf(environment).listIndex)],
    [
      'the index is damaged',
      ({ environment }) => writeFile(pathsOf(environment).listIndex, 'x\n{"run_id":1}\n'),
    ],
    [
      'another segment was sealed',
      ({ environment }) => {
        const { raw } = pathsOf(environment)
        return copyFile(join(raw, '000001.ndjson.zst'), join(raw, '000002.ndjson.zst'))
      },
    ],
    ['a segment is gone', ({ environment }) => rm(join(pathsOf(environment).raw, '000001.ndjson.zst'))],
    ['the warehouse was rebuilt', ({ environment }) => runShared(['rebuild'], environment)],
    [
      'its rows are gone',
      async ({ environment }) => {
        await rm(pathsOf(environment).rows, { recursive: true })
        // As the daemon does before it looks.
        await makeDirectories(pathsOf(environment))
      },
    ],
    ['the warehouse is gone', ({ environment }) => rm(pathsOf(environment).warehouse)],
    ['the link to the snapshot is gone', ({ environment }) => rm(join(pathsOf(environment).lake, 'latest'))],
    [
      'the snapshot is gone',
      ({ environment }) => rm(join(pathsOf(environment).lake, 'snapshots'), { recursive: true }),
    ],
    ['a filtered run ended', ({ environment }) => syncHere(environment, { ids: [idOf(1)] })],
    [
      'the last run failed',
      ({ environment, faults }) => {
        faults.plan = [{ fault: 'status', status: 401 }]
        return syncHere(environment)
      },
    ],
  ])('if %s', async (_, change) => {
    const company = await startSettled()
    await change(company)
    company.sandbox.requests.reset()
    expect(await lookHere(company.environment)).toMatchObject(NOT_ASKED)
    expect(company.sandbox.requests.total).toBe(0)
  })

  it('if a setting that affects runs changed, but not one that only concerns the log', async () => {
    const { environment } = await startSettled()
    for (const changed of [
      { SOURCE_TIMEZONE: 'America/Manaus' },
      { ANALYSIS_STATUSES: 'analysis' },
      { ANALYSIS_MAX_AGE: 'off' },
      { SNAPSHOT_KEEP: '1h' },
    ])
      expect(await lookHere({ ...environment, ...changed })).toMatchObject(NOT_ASKED)
    expect(await lookHere({ ...environment, LOG_LEVEL: 'debug' })).toMatchObject(NOTHING_NEW)
  })

  it('if the last run is old, or the clock was set back', async () => {
    const { environment, syncHere: run } = await startCompany(notices(1, 6))
    await run()
    const at = (minutes: number) => () => new Date(Date.now() + minutes * 60_000)
    expect(await lookHere(environment, { now: at(59) })).toMatchObject(NOTHING_NEW)
    expect(await lookHere(environment, { now: at(61) })).toMatchObject(NOT_ASKED)
    expect(await lookHere(environment, { now: at(-1) })).toMatchObject(NOT_ASKED)
    expect(await lookHere(environment, { maxAgeMs: 0 })).toMatchObject(NOT_ASKED)
  })

  it('if an analysis is old', async () => {
    const { environment, syncHere: run } = await startCompany(notices(1, 6), { ANALYSIS_MAX_AGE: '10h,20h' })
    await run()
    const at = (hours: number) => ({ now: () => new Date(Date.now() + hours * 3_600_000), maxAgeMs: 1e9 })
    // Each has its own share, between half and all of the maximum.
    expect(await lookHere(environment, at(4.9))).toMatchObject(NOTHING_NEW)
    expect(await lookHere(environment, at(10.1))).toMatchObject(NOT_ASKED)
  })
})

describe('a run leaves no index', () => {
  it('if an analysis failed, but leaves one again when it succeeds', async () => {
    const company = await startCompany(notices(1, 6))
    company.faults.plan = [{ fault: 'status', status: 500, kinds: ['analysis'], ids: [idOf(1)] }]
    await company.syncHere()
    expect(await lookHere(company.environment)).toMatchObject(NOT_ASKED)
    company.faults.plan = []
    await company.syncHere()
    expect(await lookHere(company.environment)).toMatchObject(NOTHING_NEW)
  })

  it('while a notice exists that the list does not show', async () => {
    const company = await startSettled()
    const all = company.world
      .ids()
      .slice(1)
      .map(id => company.world.entry(id)?.edital)
    company.faults.respond = ({ kind }) =>
      kind === 'list'
        ? { status: 200, body: JSON.stringify({ editais: all, count: 5, total: 5, limit: 200, offset: 0 }) }
        : undefined
    expect(await company.syncHere()).toMatchObject({ status: 'ok', listed: 6, tombstoned: 0 })
    expect(await lookHere(company.environment)).toMatchObject(NOT_ASKED)
  })

  it('if the list was not whole in one pass', async () => {
    const company = await startSettled()
    company.faults.plan = [{ fault: 'total', by: 1, kinds: ['list'], first: 1 }]
    expect(await company.syncHere()).toMatchObject({ status: 'ok', scan_passes: 2, scan_complete: true })
    expect(await lookHere(company.environment)).toMatchObject(NOT_ASKED)
  })
})

test('a quarantined record waits for its next attempt: until then, looks replace runs', async () => {
  const company = await startCompany(notices(1, 6))
  company.faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [idOf(1)] }]
  company.world.update(idOf(2), { edital: { created_at: 'ontem' } })
  expect(await company.syncHere()).toMatchObject({ status: 'partial', quarantined: 2 })
  // As before, the next run reports that nothing else is wrong.
  expect(await lookHere(company.environment)).toMatchObject(NOT_ASKED)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', deferred: 2 })
  expect(await lookHere(company.environment)).toMatchObject(NOTHING_NEW)
  const [next] = await company.query<{ ms: number }>(
    'SELECT epoch_ms(min(next_attempt_at))::DOUBLE AS ms FROM quarantine WHERE resolved_at IS NULL',
  )
  const at = (ms: number) => ({ now: () => new Date(ms), maxAgeMs: Number.MAX_SAFE_INTEGER })
  expect(await lookHere(company.environment, at(Number(next?.ms) - 1))).toMatchObject(NOTHING_NEW)
  expect(await lookHere(company.environment, at(Number(next?.ms)))).toMatchObject(NOT_ASKED)
  expect(asked(company, 'analysis')).toEqual([])
})
