import type { World } from '#src/sandbox/world.ts'
import { companyPaths } from '#src/store/company.ts'
import { openSnapshot } from '#src/store/lake/read.ts'

/** Fields of the list that the warehouse keeps as they are. */
const TEXTS = [
  ...['pncp_id', 'orgao', 'objeto', 'numero', 'modalidade', 'uf', 'pncp_url', 'status', 'discard_reason'],
  ...['valor_estimado', 'participation_confirmed'],
] as const
/** Instants, compared in milliseconds. */
const TIMES = ['created_at', 'updated_at', 'committed_at'] as const
const CHILDREN = ['requirements', 'items', 'alerts'] as const

/** What the warehouse must say of one live notice: list fields, instants, depth and counts of child rows. */
export type Facts = Readonly<Record<string, string | number | boolean | null>>

/** Of every live notice of the world. */
export function factsOf(world: World): Facts[] {
  return world.ids().map(id => {
    const { edital, analysis } = world.entry(id) ?? {}
    const pairs = [
      ...TEXTS.map(name => [name, edital?.[name] ?? null]),
      ...TIMES.map(name => [name, edital?.[name] === undefined ? null : Date.parse(String(edital[name]))]),
      ...CHILDREN.map(name => [name, (analysis?.[name] as unknown[] | undefined)?.length ?? null]),
      ['analysis_level', analysis?.analysis_level ?? null],
    ]
    return { edital_id: id, ...Object.fromEntries(pairs) }
  })
}

/** Ids of the notices of which the latest snapshot says something else than the world, or that one of them lacks. */
export async function wrongNotices(
  dataDir: string,
  company: string,
  facts: readonly Facts[],
): Promise<string[]> {
  const { db } = await openSnapshot(companyPaths(dataDir, company).lake)
  try {
    const rows = await db.rows<Facts>(
      `SELECT e.edital_id, ${TEXTS.map(name => `e.${name}`).join(', ')},
         ${TIMES.map(name => `epoch_ms(e.${name}) AS ${name}`).join(', ')},
         ${CHILDREN.map(name => `CASE WHEN a.edital_id IS NOT NULL THEN (SELECT count(*) FROM ${name} c WHERE c.edital_id = e.edital_id) END AS ${name}`).join(', ')},
         a.analysis_level
       FROM editais e LEFT JOIN analyses a USING (edital_id)
       WHERE e.deleted_at IS NULL AND e.analysis_state = 'current'`,
    )
    const told = new Map(rows.map(row => [row.edital_id, JSON.stringify(row)]))
    const wrong = facts.flatMap(({ edital_id, ...rest }) => {
      const same = told.get(edital_id as string) === JSON.stringify({ edital_id, ...rest })
      told.delete(edital_id as string)
      return same ? [] : [String(edital_id)]
    })
    return [...wrong, ...[...told.keys()].map(String)]
  } finally {
    db.close()
  }
}

type Run = { readonly run_id: string; readonly status: string }

/** Runs that have not exactly one row with their status in the latest snapshot, and rows that are of none. */
export async function runsAmiss(dataDir: string, company: string, runs: readonly Run[]): Promise<string[]> {
  const { db } = await openSnapshot(companyPaths(dataDir, company).lake)
  try {
    const rows = await db.rows<Run>('SELECT run_id, status FROM sync_runs')
    const counts = new Map<string, number>()
    const count = (by: number) => (run: Run) => {
      const key = `${run.run_id} ${run.status}`
      counts.set(key, (counts.get(key) ?? 0) + by)
    }
    runs.forEach(count(1))
    rows.forEach(count(-1))
    return [...counts].flatMap(([key, difference]) => (difference === 0 ? [] : [key]))
  } finally {
    db.close()
  }
}
