import { expect, onTestFinished, test } from 'vitest'
import { readApiSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { companyAt, startCompany, startSynced } from '#test/support/synced.ts'

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

test('the page of a gateway is no proof that a notice is gone, whatever is asked for', async () => {
  const { sandbox, world, environment } = await startSynced(notices(1, 6))
  const company = companyAt(sandbox, world, { ...environment, API_RETRIES: '0' })
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

  company.faults.plan = []
  const api = createApiClient({
    ...readApiSettings(company.environment),
    retryMs: 10,
    signal: new AbortController().signal,
    nowMs: Date.now,
  })
  onTestFinished(() => api.close())
  for (const body of ['', '{"message":"no Route matched with those values"}', SPRING, '"not found"', '[]']) {
    company.faults.respond = ({ kind }) => (kind === 'notice' ? { status: 404, body } : undefined)
    await expect(api.notice(missing), body).rejects.toThrow('it proves nothing')
  }
  company.faults.respond = undefined
  expect(await api.notice(missing)).toEqual({ kind: 'absent' })
  expect(await company.syncHere()).toMatchObject({ status: 'ok', tombstoned: 1 })
})
