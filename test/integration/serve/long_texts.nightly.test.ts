import { expect, test } from 'vitest'
import type { AnalysisDocument, Edital, Entry } from '#src/sandbox/world.ts'
import { comparableAnalysis, comparableNotice } from '#test/support/documents.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { runCommand } from '#test/support/project.ts'
import { serveApi } from '#test/support/serve.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'
import { warehouseTables } from '#test/support/tables.ts'

const ROW_BYTES = 32 * 1024
const HEALTHY = 5

const long = (count: number, field: 'objeto' | 'modalidade', bytes: number) =>
  Array.from({ length: count }, (_, n) => {
    const text = `${n} ${'ação '.repeat(bytes / 6)}`
    return noticeEntry(n + 1, { [field]: text }, { [field]: text })
  })

/** What the API sends for all of them. */
async function expectServed({ environment }: SyncedCompany, entries: readonly Entry[]): Promise<void> {
  const { json } = await serveApi(environment)
  for (const { edital, analysis } of entries) {
    const path = `/api/v1/editais/${edital.id}`
    expect(comparableNotice(await json<Edital>(path))).toEqual(comparableNotice(edital))
    expect(comparableAnalysis(await json<AnalysisDocument>(`${path}/analysis`))).toEqual(
      comparableAnalysis(analysis as AnalysisDocument),
    )
  }
  const page = await json<{ editais: Edital[] }>('/api/v1/editais?limit=3')
  const byId = new Map(entries.map(({ edital }) => [edital.id, edital]))
  expect(page.editais.length).toBeGreaterThan(0)
  for (const edital of page.editais) {
    const sent = byId.get(edital.id)
    if (sent) expect(comparableNotice(edital)).toEqual(comparableNotice(sent))
  }
}

test.each([
  ['one objeto of 25 MB', long(1, 'objeto', 25_000_000)],
  ['200 notices with an objeto of 100 kB', long(200, 'objeto', 100_000)],
  ['300 notices with a modalidade of 75 kB', long(300, 'modalidade', 75_000)],
])(
  '%s: the company is synced, served as the API sent it, and rebuilt alike',
  async (_, cut) => {
    const entries = [...cut, ...notices(cut.length + 1, cut.length + HEALTHY)]
    const company = await startCompany(entries)
    const { environment } = company
    const report = await company.sync()
    expect(report).toMatchObject({
      status: 'ok',
      listed: entries.length,
      loaded: entries.length,
      quarantined: 0,
    })

    const [longest] = await company.query<{ bytes: number; marked: number }>(
      `SELECT max(greatest(strlen(objeto), strlen(modalidade)))::INTEGER AS bytes,
       count(*) FILTER (concat(objeto, modalidade) LIKE '%… [texto cortado: % bytes, sha256 %]%')::INTEGER AS marked FROM editais`,
    )
    expect(longest?.marked).toBe(cut.length)
    expect(longest?.bytes).toBeLessThanOrEqual(ROW_BYTES)
    const drift = await company.query<{ company: string; path: string; sample: string; count: number }>(
      `SELECT company, path, sample, count::INTEGER AS count FROM schema_drift WHERE kind = 'too_long'`,
    )
    expect(drift).toEqual([
      {
        company: 'acme',
        path: expect.stringMatching(/^notice\.(objeto|modalidade)$/),
        sample: expect.stringMatching(/^[^ ]+: \d+ bytes$/),
        count: cut.length,
      },
    ])
    await expectServed(
      company,
      cut.length > 1 ? [...entries.slice(0, 20), ...entries.slice(-HEALTHY)] : entries,
    )

    // Nothing is requested again, and nothing changed.
    expect(await company.syncHere()).toMatchObject({ unchanged: entries.length, loaded: 0 })
    const before = await warehouseTables(environment, ['warehouse_id'])
    expect((await runCommand(['rebuild'], environment)).code).toBe(0)
    expect(await warehouseTables(environment, ['warehouse_id'])).toEqual(before)
  },
  180_000,
)

test('an analysis with long texts everywhere is served as the API sent it', async () => {
  const text = 'texto longo '.repeat(10_000)
  const entries = [
    noticeEntry(
      1,
      {},
      {
        verdict: { recommendation: 'cautela', reason: text, bullets: [text, 'short'] },
        overview: { is_srp: true, prazo_impugnacao: text, outro: { fundo: [{ x: 1, y: text }] } },
        operational: { lista: Array.from({ length: 50_000 }, (_, n) => n) },
        requirements: Array.from({ length: 100 }, (_, n) => ({
          title: `${n}`,
          required: text,
          metadata: { n, text },
        })),
        items: [{ numero_item: 1, descricao: text }],
        alerts: [{ type: 'risk', title: 'a', description: text, legal_thesis: text }],
      },
    ),
    ...notices(2, 1 + HEALTHY),
  ]
  const company = await startCompany(entries)
  expect(await company.sync()).toMatchObject({ status: 'ok', loaded: entries.length, quarantined: 0 })
  await expectServed(company, entries)
  const [overview] = await company.query<{ srp: boolean; own: boolean }>(
    `SELECT overview_is_srp AS srp, (overview ->> 'is_srp')::BOOLEAN AS own FROM analyses WHERE edital_id = '${idOf(1)}'`,
  )
  expect(overview).toEqual({ srp: true, own: true })

  company.world.update(idOf(1), { analysis: { requirements: [], verdict: {} } })
  await company.syncHere({ full: true })
  await expectServed(company, [company.world.entry(idOf(1)) as Entry])
}, 120_000)

test('a time that is long by what nobody sees sets its notice aside, and no other', async () => {
  const long = noticeEntry(1, { updated_at: `2026-11-02T10:00:00Z${'\u200b'.repeat(8_000_000)}` })
  const company = await startCompany([long, ...notices(2, 1 + HEALTHY)])
  expect(await company.sync([], 3)).toMatchObject({ loaded: HEALTHY, quarantined: 1 })
}, 60_000)
