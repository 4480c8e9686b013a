import { describe, expect, it, test } from 'vitest'
import { OUTCOMES } from '#schema/sync_runs.ts'
import { listPublishedColumns, syncRuns } from '#schema/tables.ts'
import { assertConserved, createReport } from '#src/core/company/run_report.ts'
import type { Fetched } from '#src/core/pipeline/fetch.ts'
import { composeReport, type Outcomes } from '#src/core/pipeline/report.ts'
import type { Survey } from '#src/core/pipeline/survey.ts'
import { EXIT, FatalError, InterruptedError, RequestError } from '#src/lib/errors.ts'

const BEGUN = createReport('20261122T120000Z-000001', 'incremental', new Date('2026-11-22T12:00:00Z'))

/** 100 notices, of which 40 are to be fetched. */
const PLAN: Survey['plan'] = {
  listed: 100,
  added: 30,
  changed: 10,
  revived: 2,
  unchanged: 53,
  deferred: 4,
  rejected: 3,
  toFetch: 40,
  records: [],
  workPath: '',
}
const SCANNED: Survey['scanned'] = {
  passes: 1,
  complete: true,
  absent: [],
  failed: [],
  total: 100,
  drift: [],
  pages: null,
}
const NONE_MISSING: Survey['missing'] = { gone: [], found: 0, held: false, unverified: [] }

const FETCHED: Fetched = {
  loaded: 40,
  gone: 0,
  quarantined: 0,
  failed: 0,
  excluded: 0,
  silentChanges: 0,
  stopped: null,
  lastFailure: null,
  lastExcluded: null,
}

function surveyOf(about: {
  plan?: Partial<Survey['plan']>
  scanned?: Partial<Survey['scanned']>
  missing?: Partial<Survey['missing']>
}): Survey {
  return {
    plan: { ...PLAN, ...about.plan },
    scanned: { ...SCANNED, ...about.scanned },
    missing: { ...NONE_MISSING, ...about.missing },
    unlisted: [],
    listedPath: '',
    shown: null,
  }
}

/** The report of a run in which nothing is wrong, except for what is given. Every report must be conserved. */
function report(given: Partial<Outcomes> = {}) {
  const outcomes: Outcomes = {
    surveyed: surveyOf({ plan: { rejected: 0, listed: 97 }, scanned: { total: 97 } }),
    fetched: FETCHED,
    ended: null,
    poisoned: [],
    requests: { requests: 41, bytes: 5000 },
    ...given,
  }
  const reported = composeReport(BEGUN, outcomes)
  assertConserved(reported.report)
  return { ...reported.report, causes: [...reported.causes] }
}

describe('the report of a run', () => {
  it('is ok, without an error, if every listed notice is unchanged, deferred or loaded', () => {
    expect(report()).toMatchObject({
      status: 'ok',
      error: null,
      causes: [],
      listed: 97,
      added: 30,
      changed: 10,
      revived: 2,
      unchanged: 53,
      deferred: 4,
      loaded: 40,
      quarantined: 0,
      not_attempted: 0,
      requests: 41,
      bytes_fetched: 5000,
      scan_passes: 1,
      scan_complete: true,
    })
  })

  it('adds what the list and the analyses have in common: gone, failed, deferred, quarantined', () => {
    const surveyed = surveyOf({ scanned: { absent: ['b', 'c'], failed: [{ id: 'a', reason: 'HTTP 500' }] } })
    const fetched = { ...FETCHED, loaded: 20, gone: 5, quarantined: 6, failed: 4, excluded: 5 }
    expect(report({ surveyed, fetched })).toMatchObject({
      listed: 103,
      gone: 7,
      failed: 5,
      quarantined: 9,
      deferred: 9,
      loaded: 20,
      not_attempted: 0,
    })
  })

  it('counts what could not be loaded as quarantined instead of loaded, each notice once', () => {
    const { loaded, quarantined, status, error } = report({ poisoned: ['a', 'b', 'a'] })
    expect({ loaded, quarantined, status }).toEqual({ loaded: 38, quarantined: 2, status: 'partial' })
    expect(error).toBe('2 records quarantined; see `editais status`.')
  })

  it('without a list has only what was requested, and the reason', () => {
    const ended = new RequestError('HTTP 503')
    expect(report({ surveyed: null, fetched: null, ended })).toMatchObject({
      status: 'failed',
      listed: 0,
      scan_complete: null,
      requests: 41,
      error: 'The API could not be read: HTTP 503. Nothing was changed. Run again later.',
    })
  })

  it('leaves what was not reached as not attempted', () => {
    const fetched = { ...FETCHED, loaded: 10, stopped: new InterruptedError() }
    expect(report({ fetched, ended: fetched.stopped })).toMatchObject({
      status: 'interrupted',
      loaded: 10,
      not_attempted: 30,
      error: 'Interrupted.',
    })
    expect(report({ fetched: null, ended: new FatalError('No.', EXIT.failed) })).toMatchObject({
      status: 'failed',
      loaded: 0,
      not_attempted: 40,
    })
  })

  it('gives every reason in order, the worst status and all causes', () => {
    const missing = { held: true, unverified: [{ id: 'x', reason: 'HTTP 500' }] }
    const ended = new FatalError('The key was refused.', EXIT.failed, { why: 'key_refused' })
    const { status, error, causes } = report({
      surveyed: surveyOf({ missing }),
      fetched: { ...FETCHED, loaded: 39, excluded: 1, lastExcluded: 'y: 403' },
      ended,
    })
    expect(status).toBe('failed')
    expect(causes).toEqual(['mass_deletion_held', 'missing_unverified', 'key_refused'])
    expect(error).toMatch(
      /^Too many notices disappeared.*such as x: HTTP 500\. The API does not offer 1 analysis.*The key was refused\. 3 records quarantined/,
    )
  })

  it('explains single failures only if nothing stopped the fetching', () => {
    const fetched = { ...FETCHED, loaded: 39, failed: 1, lastFailure: 'z: HTTP 500' }
    expect(report({ fetched })).toMatchObject({
      status: 'partial',
      error: '1 analysis could not be fetched. Last failure: z: HTTP 500.',
    })
    const stopped = new FatalError('The circuit opened.', EXIT.partial)
    expect(report({ fetched: { ...fetched, stopped }, ended: stopped })).toMatchObject({
      status: 'partial',
      error: 'The circuit opened.',
    })
  })

  it('is ok if the API merely does not offer some analyses', () => {
    const fetched = { ...FETCHED, loaded: 30, excluded: 10, lastExcluded: 'y: 403' }
    expect(report({ fetched })).toMatchObject({ status: 'ok', deferred: 14, error: expect.any(String) })
  })

  it.each([
    { total: 117, listed: 97, status: 'ok' },
    { total: 118, listed: 97, status: 'partial' },
    { total: 1000, listed: 950, status: 'ok' },
    { total: 1000, listed: 949, status: 'partial' },
  ])('with $listed of $total notices shown is $status', ({ total, listed, status }) => {
    const plan = { listed, rejected: 0, unchanged: listed - 44 }
    expect(report({ surveyed: surveyOf({ plan, scanned: { total } }) }).status).toBe(status)
  })
})

test('a report has exactly the columns of sync_runs, in their order', () => {
  const columns = listPublishedColumns(syncRuns).map(({ name }) => name)
  expect(Object.keys(createReport('run', 'full', new Date()))).toEqual(
    columns.filter(name => name !== 'company'),
  )
})

test.each(OUTCOMES)('a listed notice may end as %s', outcome => {
  const report = { ...createReport('run', 'full', new Date()), listed: 1 }
  expect(() => assertConserved(report)).toThrow('1 notice listed, but 0 outcomes')
  assertConserved({ ...report, [outcome]: 1 })
})

test('a negative outcome is never balanced by another one', () => {
  const report = { ...createReport('run', 'full', new Date()), loaded: 1, failed: -1 }
  expect(() => assertConserved(report)).toThrow('0 notices listed')
})
