import { expect, test } from 'vitest'
import { connectToCommand } from '#test/support/mcp.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { startSynced } from '#test/support/synced.ts'

const [ONE, OTHER] = ['12ABC34501DE35', '33000167000101']

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
    expect((await call('search_notices', { q: text })).data.total, text).toBe(1)
  expect((await call('search_notices', { q: `${ONE}-2026-17` })).data.total).toBe(0)
})
