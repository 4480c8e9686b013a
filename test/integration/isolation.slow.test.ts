import { join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { renderLatestReport } from '#src/extras/report/page.ts'
import { CATALOG } from '#src/marts/marts.ts'
import { openSnapshots } from '#src/marts/open.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { type Companies, startCompanies } from '#test/support/companies.ts'
import { syncHere } from '#test/support/here.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { companyDirectory, filesBelow } from '#test/support/project.ts'
import { expectConserved, type SyncedCompany } from '#test/support/synced.ts'
import { warehouseTables } from '#test/support/tables.ts'
import { expectTruth } from '#test/support/truth.ts'

const SLUGS = ['acme', 'boreal'] as const
const NOON = new Date('2026-11-20T12:00:00Z')
/** A word in every free text of one company's documents, and in no other company's. */
const MARKS: Readonly<Record<string, string>> = { acme: 'ZEBRA', boreal: 'QUOKKA' }

/** 24 notices with the same ids and pncp_ids for every company, but its own texts and number of items. */
function markedNotices(slug: string): Entry[] {
  const own = (text: string) =>
    text.replaceAll(/MUNICIPIO|Objeto|Razão|Requisito|Item|Alerta/g, word => `${word} ${MARKS[slug]}`)
  const entries = Array.from({ length: 24 }, (_, index) =>
    slug === 'acme'
      ? noticeEntry(index + 1)
      : noticeEntry(index + 1, { status: 'ready', valor_estimado: 7 }, { items: [{ descricao: 'Item' }] }),
  )
  return JSON.parse(own(JSON.stringify(entries))) as Entry[]
}

/** Relations with rows of companies; `fases` only lists names. */
const RELATIONS = CATALOG.filter(({ columns }) => columns.some(({ name }) => name === 'company'))

function pathsOf({ environment }: SyncedCompany) {
  const { dataDir, company } = readSettings(environment)
  return companyPaths(dataDir, company)
}

test('companies whose notices have the same ids stay separate, synced one after another or at the same time', async () => {
  const companies = await startCompanies(SLUGS, markedNotices)
  const [acme, boreal] = SLUGS.map(companies.company) as [SyncedCompany, SyncedCompany]
  companies.sandbox.faults.plan = [
    { fault: 'truncate', kinds: ['analysis'], ids: [idOf(9)], company: 'boreal' },
  ]
  const atOnce = async () => {
    const both = await Promise.all([acme, boreal].map(({ environment }) => syncHere(environment)))
    for (const { report } of both) expectConserved(report)
    return both.map(({ report }) => report)
  }
  await atOnce()

  // One removes what the other changes, and both change at the same time.
  acme.world.remove(idOf(1))
  acme.world.update(idOf(2), { edital: { numero: '2' }, updatedAt: NOON })
  boreal.world.update(idOf(1), { edital: { numero: '1' }, updatedAt: NOON })
  boreal.world.remove(idOf(2))
  for (const { world } of [acme, boreal]) world.update(idOf(4), { analysis: { alerts: [] }, updatedAt: NOON })
  expect(await atOnce()).toMatchObject([
    { listed: 23, changed: 2, tombstoned: 1 },
    { listed: 23, changed: 2, tombstoned: 1 },
  ])
  acme.world.restore(idOf(1))
  expect((await syncHere(boreal.environment)).report).toMatchObject({ changed: 0, revived: 0 })
  expect((await syncHere(acme.environment)).report).toMatchObject({ revived: 1 })

  for (const company of [acme, boreal]) await expectTruth(company)
  await expectOwn(acme, 'ZEBRA', 'QUOKKA')
  await expectOwn(boreal, 'QUOKKA', 'ZEBRA')
  const report = await renderLatestReport(pathsOf(acme).lake, { now: NOON, pagesUrl: null })
  expect([report.includes('ZEBRA'), report.includes('QUOKKA')]).toEqual([true, false])
  await expectUnmixed(companies)
})

/** Checks that neither the company's directory nor its log contains anything of the other's. */
async function expectOwn(company: SyncedCompany, own: string, others: string): Promise<void> {
  const texts = { rows: JSON.stringify(await warehouseTables(company.environment)), log: '' }
  for (const [path, bytes] of await filesBelow(companyDirectory(company.environment))) {
    const text = path.endsWith('.zst') ? zstdDecompressSync(bytes).toString('utf8') : bytes.toString('latin1')
    if (path.endsWith('.zst')) texts.log += text
    expect(text.includes(others), path).toBe(false)
  }
  for (const [name, text] of Object.entries(texts)) {
    expect([name, text.includes(own), text.includes(others)]).toEqual([name, true, false])
  }
}

/** Queried together, the companies have exactly the rows that each has alone, in tables and marts. */
async function expectUnmixed(companies: Companies): Promise<void> {
  const lakes = SLUGS.map(slug => pathsOf(companies.company(slug)).lake)
  const alone = await Promise.all(
    lakes.map(lake => Database.open(join(lake, 'latest/catalog.duckdb'), { readOnly: true, threads: 1 })),
  )
  const { db: together } = await openSnapshots(lakes)
  for (const { name } of RELATIONS) {
    const rows = (await Promise.all(alone.map(db => rowsOf(db, name)))).flat()
    expect(await rowsOf(together, name), name).toEqual(rows.sort())
    expect(new Set(rows.map(row => /"company":"(\w+)"/.exec(row)?.[1])).isSubsetOf(new Set(SLUGS))).toBe(true)
  }
  for (const db of [...alone, together]) db.close()
}

/** Rows as text, without values that grow between queries. */
async function rowsOf(db: Database, relation: string): Promise<string[]> {
  const rows = await db.rows<{ row: string }>(
    `SELECT to_json(t)::VARCHAR AS row FROM (FROM ${relation}) t ORDER BY ALL`,
  )
  return rows
    .map(({ row }) => row.replace(/"idade_minutos":\d+/, '').replaceAll(/(\.\d)\d+(?=[,}])/g, '$1'))
    .sort()
}
