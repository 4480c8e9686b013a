import { expect, test } from 'vitest'
import { reportHere } from '#test/support/here.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import type { Environment } from '#test/support/project.ts'
import { queryLatest, temporaryDirectory } from '#test/support/project.ts'
import { serveApi } from '#test/support/serve.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'

/** Far less than the five minutes that an answer may ask to wait. */
const SOON_MS = 100_000

async function secondOf({ environment }: SyncedCompany): Promise<Environment> {
  const { url, keys } = await serveApi(environment)
  return {
    ...environment,
    API_BASE_URL: url,
    API_KEY: keys.acme as string,
    DATA_DIR: await temporaryDirectory(),
    ANALYSIS_STATUSES: '',
  }
}

async function statesOf(environment: Environment): Promise<Record<string, number>> {
  const rows = await queryLatest<{ state: string; notices: number }>(
    environment,
    'SELECT analysis_state AS state, count(*) AS notices FROM editais GROUP BY ALL',
  )
  return Object.fromEntries(rows.map(({ state, notices }) => [state, notices]))
}

test(
  'a worker that syncs from a mirror takes everything available at once, and names what is not',
  async () => {
    const company = await startCompany(notices(1, 60))
    company.faults.plan = [
      { fault: 'status', status: 500, kinds: ['analysis'], ids: [idOf(2)] },
      { fault: 'truncate', kinds: ['analysis'], ids: [idOf(4)] },
    ]
    await company.syncHere()
    const second = await secondOf(company)
    const report = await reportHere(second, {}, 3)
    expect(report).toMatchObject({ status: 'partial', listed: 60, loaded: 58, failed: 2 })
    expect(report.error).toMatch(
      /^2 analyses could not be fetched\. Last failure: n0000[24]: the API does not have this analysis now: The analysis of this notice .*[^.]\.$/,
    )
    // The list, and each analysis once.
    expect(report.requests).toBe(61)
    expect(await statesOf(second)).toEqual({ current: 58, pending: 2 })

    company.faults.plan.length = 0
    await company.syncHere({ ids: [idOf(2), idOf(4)] })
    const mended = { ...second, ...(await addressOf(company)) }
    expect(await reportHere(mended)).toMatchObject({ loaded: 2, unchanged: 58 })
  },
  SOON_MS,
)

async function addressOf({ environment }: SyncedCompany): Promise<Environment> {
  const { url, keys } = await serveApi(environment)
  return { API_BASE_URL: url, API_KEY: keys.acme as string }
}

test(
  'phases whose analyses the mirror does not fetch are deferred, and the run completes',
  async () => {
    const kept = notices(1, 10)
    const discarded = Array.from({ length: 50 }, (_, n) => noticeEntry(11 + n, { status: 'discarded' }))
    const company = await startCompany([...kept, ...discarded], { ANALYSIS_STATUSES: 'analysis' })
    await company.syncHere()
    const second = await secondOf(company)
    for (const loaded of [10, 0]) {
      const report = await reportHere(second)
      expect(report).toMatchObject({ status: 'ok', listed: 60, loaded, deferred: 50, unchanged: 10 - loaded })
      expect(report.error).toContain('The API does not offer 50 analyses')
      expect(report.error).toContain('set ANALYSIS_STATUSES here')
      expect(report.requests).toBe(1 + 50 + loaded)
      expect(await statesOf(second)).toEqual({ current: 10, pending: 50 })
    }
    // With the setting that the message suggests.
    const quiet = await reportHere({ ...second, ANALYSIS_STATUSES: 'analysis' })
    expect(quiet).toMatchObject({ status: 'ok', deferred: 50, requests: 1, error: null })
    // The other worker starts to fetch them.
    await company.syncHere()
    const all = { ...company, environment: { ...company.environment, ANALYSIS_STATUSES: '' } }
    await reportHere(all.environment)
    expect(await reportHere({ ...second, ...(await addressOf(all)) })).toMatchObject({ loaded: 50 })
  },
  SOON_MS,
)
