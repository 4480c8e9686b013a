import { globSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { fieldsBelow } from '#test/support/contract_tables.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { expectRoundTrip } from '#test/support/round_trip.ts'
import { serveApi } from '#test/support/serve.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

/** The number of notices; ROUND_TRIP=5000 tests more. Real ones: `test/integration/real_notices.slow.test.ts`. */
const NOTICES = Number(process.env.ROUND_TRIP ?? 300)

test('a synced synthetic world is served unchanged, and a second worker gets the same tables', async () => {
  const world = generateWorld({ seed: 7, company: 'acme', notices: NOTICES, start: new Date() })
  // Otherwise nothing would show that such a field is stored and served.
  const sent = new Set(world.ids().flatMap(id => Object.keys(world.entry(id)?.edital ?? {})))
  expect([...sent].sort()).toEqual(
    fieldsBelow('Notice')
      .map(({ name }) => name)
      .sort(),
  )
  const company = await startCompany(world)
  await company.syncHere()
  await expectRoundTrip(company)
}, 600_000)

test('dates, local times and nanoseconds, which do not fit microseconds, are served unchanged', async () => {
  const sessions = [
    ...['2026-12-10', '2026-12-10T09:30:00', '2026-12-10T09:30:00.5', '2026-12-10T09:30:00.1234567'],
    ...['2026-12-10T09:30:00.123456789Z', '2026-12-10T09:30:00.000000001-03:00', '2026-12-10T09:30:00Z'],
    ...['2026-12-10T09:30', '2026-12-10 09:30', '2026-12-10 09:30:00'],
    // That hour did not exist in São Paulo on the first night, and occurred twice on the second.
    ...['2018-11-04T00:30:00', '2018-02-17T23:30:00', '0001-01-01', '9999-12-31'],
  ]
  const exact = sessions.map((data_sessao, at) =>
    noticeEntry(
      at + 1,
      {
        data_sessao,
        ...(at === 0 ? { updated_at: '2026-11-05T10:00:00.987654321Z' } : {}),
        ...(at === 1 ? { committed_at: '2026-11-05T10:00:00.123456789012345678+05:30' } : {}),
      },
      { data_sessao },
    ),
  )
  const company = await startCompany(exact)
  await company.syncHere()
  await expectRoundTrip(company)

  const { json } = await serveApi(company.environment)
  for (const [at, { edital }] of exact.entries()) {
    const { data_sessao, committed_at, updated_at } = edital
    const path = `/api/v1/editais/${idOf(at + 1)}`
    const expected = { data_sessao, committed_at, ...(at === 0 ? { updated_at } : {}) }
    expect(await json(path)).toMatchObject(JSON.parse(JSON.stringify(expected)))
    expect(await json(`${path}/analysis`)).toMatchObject({ data_sessao })
  }
  // What fits a column is only in the column.
  const [{ kept }] = (await company.query<{ kept: number }>(
    `SELECT count(*) AS kept FROM editais WHERE times_as_sent IS NOT NULL`,
  )) as [{ kept: number }]
  expect(kept).toBe(sessions.length - 1)
  expect(await company.syncHere()).toMatchObject({ unchanged: sessions.length, requests: 1 })
})

test('a snapshot of an earlier version, without the latest columns, is served', async () => {
  const company = await startSynced(notices(1, 3))
  const { lake } = companyPaths(company.environment.DATA_DIR as string, 'acme')
  const db = await Database.open(':memory:')
  for (const [table, column] of [
    ['editais', 'times_as_sent'],
    ['analyses', 'empty_parts'],
  ]) {
    for (const path of globSync(join(lake, `latest/${table}/**/*.parquet`))) {
      const later = `${path}.later`
      await rename(path, later)
      await db.run(
        `COPY (SELECT * EXCLUDE (${column}) FROM read_parquet(${literal(later)})) TO ${literal(path)}`,
      )
      await rm(later)
    }
  }
  db.close()
  const { json } = await serveApi(company.environment)
  const [entry] = notices(1, 1)
  expect(await json(`/api/v1/editais/${idOf(1)}`)).toMatchObject({ objeto: entry?.edital.objeto })
  expect(await json(`/api/v1/editais/${idOf(1)}/analysis`)).toMatchObject({ objeto: entry?.edital.objeto })
})

test('a day alone that becomes a point in time is a change', async () => {
  const company = await startCompany([noticeEntry(1, { data_sessao: '2026-12-10' })])
  await company.syncHere()
  company.world.put(noticeEntry(1, { data_sessao: '2026-12-10T00:00:00-03:00' }))
  expect(await company.syncHere()).toMatchObject({ changed: 1 })
  expect(await company.query('SELECT times_as_sent FROM editais')).toEqual([{ times_as_sent: null }])
})

test('an empty part of an analysis is served, and a missing or null part is not', async () => {
  const parts = [
    { pricing: {}, orgao_report: {} },
    { pricing: {}, orgao_report: { status: 'concluido' } },
    { pricing: { margem_min: 0.1 }, orgao_report: {} },
    { pricing: null, orgao_report: undefined },
    { pricing: { is_srp: false }, orgao_report: { payment_risk: '' } },
  ]
  const company = await startCompany(parts.map((part, at) => noticeEntry(at + 1, {}, part)))
  await company.syncHere()
  await expectRoundTrip(company)
  const { json } = await serveApi(company.environment)
  const served = await Promise.all(
    parts.map(async (_, at) => {
      const { pricing, orgao_report } = await json<Record<string, unknown>>(
        `/api/v1/editais/${idOf(at + 1)}/analysis`,
      )
      return { pricing, orgao_report }
    }),
  )
  expect(served).toEqual([...parts.slice(0, 3), { pricing: undefined, orgao_report: undefined }, parts[4]])
})

test('an explicit null, which the contract treats as absent, is omitted; its object is served', async () => {
  const nulls = { pricing: { margem_min: null }, orgao_report: { status: null, payment_risk: null } }
  const company = await startCompany([noticeEntry(1, { uf: null }, nulls)])
  await company.syncHere()
  const { json } = await serveApi(company.environment)
  expect(await json(`/api/v1/editais/${idOf(1)}/analysis`)).toMatchObject({ pricing: {}, orgao_report: {} })
  expect(await json(`/api/v1/editais/${idOf(1)}`)).not.toHaveProperty('uf')
})
