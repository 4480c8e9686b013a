import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Entry } from '#src/sandbox/world.ts'
import { CHANGES, follow } from '#test/support/feed.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { readPage, serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { spelledTimes } from '#test/support/spellings.ts'
import { startCompany } from '#test/support/synced.ts'
import { dataTables, warehouseTables } from '#test/support/tables.ts'

const TIMES = ['created_at', 'updated_at', 'data_sessao', 'committed_at'] as const
/** fast-check names it with the case that fails. */
const SEED = 36

/** Thirty notices, each of whose times is written in two ways. */
const TWICE = fc.sample(fc.tuple(...TIMES.map(() => spelledTimes(2))), { numRuns: 30, seed: SEED })

function written(way: 0 | 1): Entry[] {
  return TWICE.map((times, index) =>
    noticeEntry(
      index + 1,
      Object.fromEntries(TIMES.map((name, at) => [name, times[at]?.texts[way] as string])),
    ),
  )
}

test(`another spelling of the same times is no change, no version, no request and no event (seed ${SEED})`, async () => {
  const company = await startCompany(written(0))
  expect(await company.syncHere()).toMatchObject({ status: 'ok', added: 30, loaded: 30 })
  const before = dataTables(await warehouseTables(company.environment))
  const api = await serveApi(company.environment)
  const { events, next } = await follow(api, null)
  expect(events).toHaveLength(60)

  for (const entry of written(1)) company.world.put(entry)
  const report = await company.syncHere()
  expect(report).toMatchObject({ status: 'ok', listed: 30, unchanged: 30, changed: 0, loaded: 0 })
  expect(company.sandbox.requests.byKind).toMatchObject({ notice: 0, analysis: 0 })
  expect(dataTables(await warehouseTables(company.environment))).toEqual(before)

  // Nor if something else makes it a line of the log.
  const [first] = written(1)
  company.world.update(idOf(1), { edital: { ...first?.edital, numero: '7/2026' } })
  expect(await company.syncHere()).toMatchObject({ unchanged: 29, changed: 1, loaded: 1 })
  const { events: more } = await api.json<{ events: { kind: string; fields?: string[] }[] }>(
    `${CHANGES}?since=${next}&wait=20`,
  )
  expect(more.filter(({ kind }) => kind === 'notice_changed')).toMatchObject([{ fields: ['numero'] }])
})

const IMPLAUSIBLE = {
  data_sessao: '0001-01-01T00:00:00Z',
  committed_at: '9999-12-31T23:59:59-03:00',
  updated_at: '0206-05-04',
}

/** Exports are in `export_files.slow.test.ts`. */
test('an implausible time is empty in marts, pages and the report, and stays in the tables and in what is served', async () => {
  const usual = { data_sessao: '2026-12-10T09:30:00', committed_at: '2026-11-02 10:00' }
  const company = await startCompany([noticeEntry(1, IMPLAUSIBLE), noticeEntry(2, usual)])
  await company.syncHere()
  const { environment, world } = company
  world.update(idOf(2), { edital: IMPLAUSIBLE })
  world.update(idOf(1), { edital: usual })
  await company.syncHere()
  world.update(idOf(2), { edital: { objeto: 'Mudou' } })
  await company.syncHere()

  const LOCAL =
    'data_sessao_local, data_sessao_dia, dias_ate_sessao, situacao_sessao, confirmado_local, atualizado_local'
  expect(await company.query(`SELECT ${LOCAL} FROM editais_ativos WHERE edital_id = '${idOf(2)}'`)).toEqual([
    {
      ...{ data_sessao_local: null, data_sessao_dia: null, dias_ate_sessao: null },
      ...{ situacao_sessao: 'sem data', confirmado_local: null, atualizado_local: null },
    },
  ])
  const changes = `SELECT de, para FROM mudancas WHERE edital_id = '${idOf(1)}' AND campo = 'data_sessao'`
  expect(await company.query(changes)).toEqual([{ de: null, para: '2026-12-10 09:30:00' }])
  expect(
    await company.query(`SELECT year(data_sessao) AS year FROM editais WHERE edital_id = '${idOf(2)}'`),
  ).toEqual([{ year: 1 }])

  const api = await serveApi(environment)
  const served = await api.json(`/api/v1/editais/${idOf(2)}`)
  expect(served).toMatchObject({ ...IMPLAUSIBLE, committed_at: '9999-12-31T23:59:59-03:00' })
  expect(await readPage(api, `/editais/${idOf(2)}`)).toContain('<dt>Sessão</dt><dd>–</dd>')
  expect(await readPage(api, `/editais/${idOf(1)}`)).not.toMatch(/\b0001|9999|0206|BC/)
  const until = await api.json<{ total: number }>('/api/v1/mirror/editais?session_to=2026-12-31')
  expect(until.total).toBe(1)
  const ever = await api.json<{ total: number }>('/api/v1/mirror/editais?session_to=9999-12-31')
  expect(ever.total).toBe(1)
  const sorted = await api.json<{ editais: { id: string }[] }>('/api/v1/mirror/editais?sort=session')
  expect(sorted.editais.map(({ id }) => id)).toEqual([idOf(1), idOf(2)])

  const report = join(await temporaryDirectory(), 'report.html')
  await runShared(['report', '--output', report], environment)
  expect(await readFile(report, 'utf8')).not.toMatch(/\/0001|\/0206|\/9999|BC/)
})
