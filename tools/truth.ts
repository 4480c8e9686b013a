import { editais } from '#schema/tables.ts'
import type { World } from '#src/sandbox/world.ts'

/** List fields that the warehouse stores unchanged; a text in place of a number is stored as NULL. */
const FIELDS = editais.columns.filter(
  ({ name, type, from }) => 'field' in from && from.field === name && type !== 'TIMESTAMPTZ',
)
/** Instants, compared in milliseconds. */
const TIMES = ['created_at', 'updated_at', 'committed_at'] as const
const CHILDREN = ['requirements', 'items', 'alerts'] as const

/** The expected values of a live notice in a snapshot: list fields, instants, analysis level, counts of child rows. */
type Facts = Readonly<Record<string, string | number | boolean | null>>

function factsOf(world: World): Facts[] {
  return world.ids().map(id => {
    const { edital, analysis } = world.entry(id) ?? {}
    const pairs = [
      ...FIELDS.map(({ name, type }) => {
        const sent = edital?.[name] ?? null
        return [name, type === 'DOUBLE' && typeof sent === 'string' ? null : sent]
      }),
      ...TIMES.map(name => [name, edital?.[name] === undefined ? null : Date.parse(String(edital[name]))]),
      ...CHILDREN.map(name => [name, (analysis?.[name] as unknown[] | undefined)?.length ?? null]),
      ['analysis_level', analysis?.analysis_level ?? null],
    ]
    return { edital_id: id, ...Object.fromEntries(pairs) }
  })
}

const STORED = `SELECT e.edital_id, ${FIELDS.map(({ name }) => `e.${name}`).join(', ')},
    ${TIMES.map(name => `epoch_ms(e.${name}) AS ${name}`).join(', ')},
    ${CHILDREN.map(name => `CASE WHEN a.edital_id IS NOT NULL THEN (SELECT count(*) FROM ${name} c WHERE c.edital_id = e.edital_id) END AS ${name}`).join(', ')},
    a.analysis_level
  FROM editais e LEFT JOIN analyses a USING (edital_id)
  WHERE e.deleted_at IS NULL AND e.analysis_state = 'current'`

/**
 * Ids of the notices that differ between the latest snapshot and the world, are only in one of them, or wait for their
 * analysis.
 * @param query asks the latest snapshot.
 */
export async function wrongNotices(
  query: (sql: string) => Promise<Facts[]>,
  world: World,
): Promise<string[]> {
  const stored = new Map((await query(STORED)).map(row => [row.edital_id, JSON.stringify(row)]))
  const wrong = factsOf(world).flatMap(({ edital_id, ...rest }) => {
    const same = stored.get(edital_id as string) === JSON.stringify({ edital_id, ...rest })
    stored.delete(edital_id as string)
    return same ? [] : [String(edital_id)]
  })
  return [...wrong, ...[...stored.keys()].map(String)]
}
