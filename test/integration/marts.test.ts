import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Database, type Row } from '#src/core/warehouse/database.ts'
import { MARTS } from '#src/marts/marts.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { startCompanies } from '#test/support/companies.ts'
import { dayIn } from '#test/support/figures/calendar.ts'
import { syncHere } from '#test/support/here.ts'
import { openMarts } from '#test/support/marts.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { companyDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'

const DAY_MS = 24 * 3600 * 1000

/** Those of one snapshot, or of one of its runs. */
const OWN = ['run_id', 'snapshot', 'publicado_em', 'publicado_local', 'idade_minutos']

/** What each mart computes is tested in `test/unit/marts/`, over lines of the log. */
test('each mart of a snapshot has the rows that it has over the same lines of the log', async () => {
  const at = (days: number) => new Date(Date.now() + days * DAY_MS)
  const world = generateWorld({ seed: 7, company: 'acme', notices: 80, start: at(-2) })
  const [leaving, ...others] = world.ids().map(id => world.entry(id) as Entry) as [Entry, ...Entry[]]
  const [before, after] = ['green', 'red'].map(status => ({ requirements: [{ title: 'CND', status }] }))
  const verdict = { recommendation: 'nova' }
  const changed = noticeEntry(1, { status: 'ready', updated_at: at(-1).toISOString() }, { ...after, verdict })
  // Two sessions of tomorrow at the same time, too late to contest.
  const alert = { type: 'risk', severity: 'high', title: 'Tarde', action_type: 'impugnacao' }
  const near = [2, 3].map(n => noticeEntry(n, { data_sessao: `${dayIn(1)}T09:00:00` }, { alerts: [alert] }))
  const again = [4, 5].map(n => noticeEntry(n, { objeto: 'Publicado de novo', valor_estimado: 4000 }))
  // After its verdict, the session moves to an earlier day.
  const [later, sooner] = [9, 8].map(days =>
    noticeEntry(
      6,
      { data_sessao: `${dayIn(days)}T10:00:00`, updated_at: at(6.9 - days).toISOString() },
      { verdict: { recommendation: 'cautela' } },
    ),
  ) as [Entry, Entry]
  const company = await startCompany([])
  const marts = await openMarts()
  for (const { when, shown, gone } of [
    {
      when: at(-2),
      shown: [leaving, ...others, noticeEntry(1, {}, before), later, ...near, ...again],
      gone: [],
    },
    { when: at(-1), shown: [changed, sooner], gone: [leaving] },
  ]) {
    for (const entry of shown) company.world.put(entry)
    for (const { edital } of gone) company.world.remove(edital.id)
    await syncHere(company.environment, {}, { now: () => when })
    await marts.run(when, { shown, gone })
  }
  const catalog = join(companyDirectory(company.environment), 'lake/latest/catalog.duckdb')
  const published = await Database.open(catalog, { readOnly: true, threads: 1 })
  for (const { name, columns } of MARTS) {
    const compared = columns.filter(column => !OWN.includes(column.name)).map(column => column.name)
    const sql = `SELECT ${compared.join(', ')} FROM "${name}" ORDER BY ALL`
    const rows = await published.rows(sql)
    expect(rows.length, name).toBeGreaterThan(0)
    expect(rows, name).toEqual((await marts.query(sql)).map(nearly))
  }
  published.close()
})

/** Ages in days are about a second apart. */
function nearly(row: Row): Row {
  const values = Object.entries(row).map(([name, value]) => [
    name,
    typeof value === 'number' && !Number.isInteger(value) ? expect.closeTo(value, 3) : value,
  ])
  return Object.fromEntries(values)
}

test('companies in different time zones can be queried together, each with its local times', async () => {
  const companies = await startCompanies(['acme', 'boreal', 'cedro'], () => [
    noticeEntry(1, { data_sessao: '2026-12-02T03:30:00Z', status: 'ready' }),
  ])
  await companies.configure({ acme: {}, boreal: { source_timezone: 'America/Manaus' }, cedro: {} })
  const { environment } = companies
  for (const [slug, zone] of [
    ['acme', 'America/Sao_Paulo'],
    ['boreal', 'America/Manaus'],
  ] as const) {
    const { environment, world } = companies.company(slug)
    await syncHere({ ...environment, SOURCE_TIMEZONE: zone })
    world.update(idOf(1), { edital: { data_sessao: '2026-12-03T03:30:00Z' }, updatedAt: new Date() })
    await syncHere({ ...environment, SOURCE_TIMEZONE: zone })
  }
  const sql = `SELECT company, data_sessao_local::VARCHAR AS hora,
    (SELECT sum(editais) FROM funil f WHERE f.company = e.company) AS editais,
    (SELECT any_value(de) FROM mudancas m WHERE m.company = e.company AND campo = 'data_sessao') AS antes
    FROM editais_ativos e ORDER BY 1`
  const expected = [
    { company: 'acme', hora: '2026-12-03 00:30:00', editais: 1, antes: '2026-12-02 00:30:00' },
    { company: 'boreal', hora: '2026-12-02 23:30:00', editais: 1, antes: '2026-12-01 23:30:00' },
  ]
  const asked = await runShared(['query', '--all', '--json', sql], environment)
  expect(asked.stderr).toBe('')
  expect(JSON.parse(asked.stdout)).toEqual(expected)

  const written = await runShared(['catalog'], environment)
  const path = join(environment.DATA_DIR ?? '', 'catalog.duckdb')
  expect(written).toMatchObject({ code: 0, stdout: `${path}: acme, boreal\n` })
  const db = await Database.open(path, { readOnly: true, threads: 1 })
  expect(await db.rows(sql)).toEqual(expected)
  db.close()
})
