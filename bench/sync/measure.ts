import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { latestLink, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { cpuSeconds } from '#tools/proc.ts'
import type { Api, Company } from '../company/api.ts'
import { type Place, pathsOf, placeOf, runAt } from '../company/place.ts'
import { AT_ONCE, type SyncRun, syncOnce } from '../company/runs.ts'
import { type Costed, runCosted } from '../processes/costs.ts'
import { type CpuByThread, watchStages } from './threads.ts'

const SCRIPT = fileURLToPath(new URL('../script/mirror.mjs', import.meta.url))

/** One round of all measurements of one company, made one after another. */
export type Measured = {
  readonly full: FullRun
  readonly scriptFull: Costed
  readonly unchanged: SyncRun
  readonly scriptUnchanged: Costed
  readonly status: Costed
  readonly changed: SyncRun
  readonly scriptChanged: Costed
  readonly first: SyncRun
  readonly scriptFirst: Costed
}

export type FullRun = SyncRun & {
  /** Null without `/proc`. */
  readonly threads: CpuByThread | null
  /** CPU seconds of the API's process meanwhile. */
  readonly apiCpuSeconds: number
}

export type Mirrored = { readonly company: Company; readonly api: Api }

type Where = { readonly directory: string; readonly step: (text: string) => void }

/**
 * One round: each run of the sync is followed by the same run of the script, so that both see the machine alike.
 * @throws Error if a run did not do the expected work, or the script's rows are not those of the sync.
 */
export async function measureRound(
  mirrored: Mirrored,
  small: Mirrored,
  where: Where & { readonly changing: number },
): Promise<Measured> {
  const { directory, step } = where
  const { company, api } = mirrored
  const { full, scriptFull, ours, theirs, script } = await measureFull(mirrored, where)
  step('nothing changed')
  const unchanged = await syncOnce(api, ours, { loaded: 0 })
  const scriptUnchanged = await script(0)
  const status = await runAt(ours, 'status')
  step('some changed')
  const loaded = await api.change(where.changing / company.notices)
  const changed = await syncOnce(api, ours, { loaded })
  const scriptChanged = await script(loaded)
  await expectSameRows(ours, theirs)
  step('first sync')
  return {
    ...{ full, scriptFull, unchanged, scriptUnchanged, status, changed, scriptChanged },
    ...(await measureFirst(small, directory)),
  }
}

/** A full sync of both. */
export async function measureFull(mirrored: Mirrored, { directory, step }: Where) {
  const { company, api } = mirrored
  const { ours, theirs, script } = await openBoth(mirrored, directory, `${company.notices}`)
  step('full sync')
  const full = await syncFull(api, ours, company.notices)
  step('script')
  const scriptFull = await script(company.notices)
  await expectSameRows(ours, theirs)
  return { full, scriptFull, ours, theirs, script }
}

/** The first run of a small company: mostly the cost of starting. */
export async function measureFirst(
  small: Mirrored,
  directory: string,
): Promise<Pick<Measured, 'first' | 'scriptFirst'>> {
  const { api, company } = small
  const { ours, theirs, script } = await openBoth(small, directory, 'first')
  const first = await syncOnce(api, ours, { loaded: company.notices, full: true })
  const scriptFirst = await script(company.notices)
  await expectSameRows(ours, theirs)
  return { first, scriptFirst }
}

/** Directories for the sync and the script, and how the latter is run. */
async function openBoth({ api, company }: Mirrored, directory: string, name: string) {
  const ours = await placeOf(join(directory, `${name}-sync`), { ...company, url: api.url }, AT_ONCE)
  const theirs = { directory: join(directory, `${name}-script`) }
  await mkdir(theirs.directory)
  const env = { API_BASE_URL: api.url, API_KEY: company.apiKey, CONCURRENCY: AT_ONCE.API_CONCURRENCY }
  /** @throws Error unless it requested so many analyses. */
  const script = async (loaded: number) => {
    await api.counters()
    const costed = await runCosted([SCRIPT], { ...theirs, env })
    const { requests } = (await api.counters()).analysis
    if (requests === loaded) return costed
    throw new Error(`The script requested ${requests} analyses instead of ${loaded}.`)
  }
  return { ours, theirs, script }
}

/** A full sync into an empty directory, watched by stage and thread. */
async function syncFull(api: Api, place: Place, notices: number): Promise<FullRun> {
  const snapshots = snapshotsDirectory(pathsOf(place).lake)
  const before = cpuSeconds(api.pid)
  let stop: ReturnType<typeof watchStages> = () => null
  const run = await syncOnce(api, place, { loaded: notices, full: true }, pid => {
    stop = watchStages(pid, { api, notices, snapshots })
  })
  return { ...run, threads: stop(run.cpuSeconds), apiCpuSeconds: cpuSeconds(api.pid) - before }
}

/** Sums that are the same only if the same values arrived. Doubles are summed as whole cents: their order differs. */
const SUMS = {
  editais: 'sum(length(objeto)), sum(round(valor_estimado * 100)::HUGEINT), max(updated_at)',
  analyses: 'sum(length(verdict_summary)), count(verdict_recommendation)',
  requirements: 'count(DISTINCT edital_id), sum(length(required)), sum(length("current")), sum(ordinal)',
  items: 'count(DISTINCT edital_id), sum(round(valor_total * 100)::HUGEINT), sum(length(descricao))',
  alerts: 'count(DISTINCT edital_id), sum(length(description)), sum(ordinal)',
} as const

/** @throws Error with both results unless the Parquet files of the sync and of the script hold the same rows. */
export async function expectSameRows(sync: Place, script: Pick<Place, 'directory'>): Promise<void> {
  const latest = latestLink(pathsOf(sync).lake)
  const db = await Database.open(':memory:', { threads: 1 })
  const ask = async (sums: string, files: string) =>
    JSON.stringify(
      await db.row(`SELECT count(*) AS rows, ${sums} FROM read_parquet(${literal(files)})`),
      (_, value) => (typeof value === 'bigint' ? String(value) : value),
    )
  try {
    for (const [table, sums] of Object.entries(SUMS)) {
      const ours = await ask(sums, join(latest, table, '*.parquet'))
      const theirs = await ask(sums, join(script.directory, `${table}.parquet`))
      if (ours !== theirs) throw new Error(`${table}: the sync made ${ours}, the script ${theirs}`)
    }
  } finally {
    db.close()
  }
}
