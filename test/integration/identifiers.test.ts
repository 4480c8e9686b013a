import { expect, test } from 'vitest'
import { connectToCommand } from '#test/support/mcp.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

/** What Spring's gateway says where it has no route. */
const SPRING =
  '{"timestamp":"2026-11-20T12:00:00Z","status":404,"error":"Not Found","path":"/api/v1/editais/n1"}'
const [ONE, OTHER] = ['12ABC34501DE35', '33000167000101']

test('two buyers with one name are two by their CNPJs with letters, in every form of the identifier', async () => {
  const ids = [
    `${ONE}-2026-15`,
    `${ONE.toLowerCase()}-1-000016/2026`,
    '12.ABC.345/01DE-35-2026-17',
    `${OTHER}-1-000015/2026`,
    `${OTHER}-26-18`,
  ]
  const orgao = 'MUNICIPIO DE SANTA MARIA'
  const company = await startCompany(ids.map((pncp_id, n) => noticeEntry(n + 1, { pncp_id, orgao })))
  expect(await company.syncHere()).toMatchObject({ status: 'ok', listed: 5, loaded: 5 })

  expect(
    await company.query(
      'SELECT pncp_id, orgao_cnpj, pncp_ano, pncp_sequencial FROM editais ORDER BY edital_id',
    ),
  ).toEqual(
    [
      [ONE, 2026, 15],
      [ONE, 2026, 16],
      [ONE, 2026, 17],
      [OTHER, 2026, 15],
      [OTHER, null, 18],
    ].map(([orgao_cnpj, pncp_ano, pncp_sequencial], n) => ({
      pncp_id: ids[n],
      ...{ orgao_cnpj, pncp_ano, pncp_sequencial },
    })),
  )
  expect(await company.query('SELECT orgao_cnpj, orgao, editais FROM orgaos ORDER BY orgao_cnpj')).toEqual([
    { orgao_cnpj: ONE, orgao, editais: 3 },
    { orgao_cnpj: OTHER, orgao, editais: 2 },
  ])
  expect(await company.query('SELECT path, kind, sample, count FROM schema_drift')).toEqual([
    { path: 'notice.pncp_id', kind: 'unknown_form', sample: ids[4], count: 1 },
  ])
})

test('agents find a notice and its buyer by their identifiers, however they are written', async () => {
  const company = await startSynced([
    noticeEntry(1, { pncp_id: `${ONE}-2026-15` }),
    noticeEntry(2, { pncp_id: `${ONE.toLowerCase()}-1-000016/2026` }),
    noticeEntry(3, { pncp_id: `${OTHER}-2026-15` }),
  ])
  const { call } = await connectToCommand(company.environment)
  const found = async (filters: object) =>
    (await call('ask_mart', { mart: 'edital_resumo', filters })).data.rows.length
  for (const orgao_cnpj of [ONE, '12abc34501de35', ' 12.ABC.345/01DE-35'])
    expect(await found({ orgao_cnpj }), orgao_cnpj).toBe(2)
  expect(
    (await call('ask_mart', { mart: 'orgaos', filters: { orgao_cnpj: '12.abc.345/01de-35' } })).data.rows,
  ).toHaveLength(1)
  for (const pncp_id of [`${ONE}-2026-16`, `${ONE}-1-000016/2026`, '12.ABC.345/01DE-35\u20112026\u201116'])
    expect(await found({ pncp_id }), pncp_id).toBe(1)
  for (const text of [`${ONE}-1-000015/2026`, 'objeto 12.ABC.345/01DE-35-2026-16', '33.000.167/0001-01'])
    expect((await call('search_notices', { text })).data.total, text).toBe(1)
  expect((await call('search_notices', { text: `${ONE}-2026-17` })).data.total).toBe(0)
})

test('the page of a gateway is no proof that a notice is gone, whatever is asked for', async () => {
  const company = await startCompany(
    Array.from({ length: 6 }, (_, n) => noticeEntry(n + 1)),
    { API_RETRIES: '0' },
  )
  await company.syncHere()
  const [missing, outdated] = [1, 2].map(idOf) as [string, string]
  company.world.remove(missing)
  company.world.update(outdated, { updatedAt: new Date('2026-11-20T12:00:00Z') })
  company.faults.plan = [{ fault: 'status', status: 404, body: 'html', kinds: ['notice', 'analysis'] }]
  const report = await company.syncHere()
  expect(report).toMatchObject({ status: 'partial', listed: 5, tombstoned: 0, gone: 0, failed: 1 })
  expect(report.error).toContain(`${missing}: 404 with "<!DOCTYPE html>`)
  expect(report.error).toContain(
    'it proves nothing; check API_BASE_URL, and the gateway or proxy before the API',
  )
  const deleted = 'SELECT count(*) AS n FROM editais WHERE deleted_at IS NOT NULL'
  expect(await company.query(deleted)).toEqual([{ n: 0 }])

  for (const body of ['', '{"message":"no Route matched with those values"}', SPRING, '"not found"', '[]']) {
    company.faults.plan = []
    company.faults.respond = ({ kind }) => (kind === 'notice' ? { status: 404, body } : undefined)
    expect(await company.syncHere(), body).toMatchObject({ status: 'partial', tombstoned: 0 })
  }
  company.faults.respond = undefined
  expect(await company.syncHere()).toMatchObject({ status: 'ok', tombstoned: 1 })
})
