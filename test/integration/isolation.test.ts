import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { environmentOf, readCompanies } from '#config/companies.ts'
import { type Environment as AnyEnvironment, readSettings } from '#config/settings.ts'
import { openCompanyRegistry, type Company as RegisteredCompany } from '#jobs/company_registry.ts'
import { inProcess } from '#jobs/process.ts'
import { CATALOG } from '#schema/marts/marts.ts'
import { queryCommand } from '#src/cli/query.ts'
import { syncCommand } from '#src/cli/sync.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { renderLatestReport } from '#src/present/report/report.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { companyPaths } from '#src/store/company.ts'
import { openSnapshots } from '#src/store/lake/read.ts'
import { exitOf } from '#src/store/run_report.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { askedFor, type Companies, startCompanies } from '#test/support/companies.ts'
import { syncHere } from '#test/support/here.ts'
import { serveWorker } from '#test/support/http.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, filesBelow, temporaryDirectory } from '#test/support/project.ts'
import { expectConserved, type SyncedCompany } from '#test/support/synced.ts'
import { dataTables, warehouseTables } from '#test/support/tables.ts'
import { expectTruth, snapshots } from '#test/support/truth.ts'

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
  const report = await renderLatestReport(pathsOf(acme).lake, { now: NOON })
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

test("the wrong company's key changes nothing with --full or in a worker, and the right one continues", async () => {
  const companies = await startCompanies(SLUGS, slug =>
    slug === 'acme' ? notices(1, 20) : notices(101, 120),
  )
  const acme = companies.company('acme')
  await syncHere(acme.environment)
  const before = dataTables(await warehouseTables(acme.environment))
  const published = await snapshots(acme.environment)

  const swapped = { ...acme.environment, API_KEY: companies.keyOf('boreal') }
  const { report, causes } = await syncHere(swapped, { full: true })
  expect([exitOf(report, causes), report.status, report.loaded]).toEqual([EXIT.failed, 'failed', 0])
  expect(report.error).toMatch(/^The API lists none .*another company.*Check API_KEY and COMPANY/)

  await companies.configure({ acme: { api_key_file: companies.keyFile('boreal'), log_level: 'silent' } })
  const { companies: known } = await openCompanyRegistry(companies.environment)
  const inWorker = await inProcess({
    company: known.get('acme') as RegisteredCompany,
    order: { kind: 'sync', job: '1', full: false, restart: false },
    signal: new AbortController().signal,
  })
  expect(inWorker).toMatchObject({ kind: 'synced', causes: ['identity_guard'], exitCode: EXIT.failed })

  expect(dataTables(await warehouseTables(acme.environment))).toEqual(before)
  expect(await snapshots(acme.environment)).toEqual(published)
  expect(askedFor(companies.sandbox, 'boreal', 'analysis')).toEqual([])
  // What --full requested is still pending.
  expect((await syncHere(acme.environment)).report).toMatchObject({ status: 'ok', changed: 0, loaded: 20 })
})

/** Names that leave DATA_DIR, name nothing, look like another company, or cannot be a file name. */
const NO_SLUGS = [
  ...[
    '../x',
    '/etc',
    'a/b',
    '..',
    '.',
    './acme',
    'acme/',
    '..\\x',
    'a\0b',
    '.acme',
    '-acme',
    '_acme',
    '%2e%2e',
  ],
  ...['аcme', 'acmе', 'ａcme', 'acme\u200b', 'acme\u202e', 'ACME', 'a cme', 'acme\nb', 'açaí', '\ud800', '~'],
  ...["acme'--", 'acme"', 'acme;x', 'acme*', '$HOME', '*', 'a'.repeat(64), 'a'.repeat(300), '__acme__'],
]

test('an invalid company name is refused in one sentence, before anything is written', async () => {
  const companies = await startCompanies(['acme'])
  await companies.configure({ acme: {} })
  const parent = await temporaryDirectory()
  const DATA_DIR = join(parent, 'data')
  await mkdir(DATA_DIR)
  await writeFile(join(parent, 'kept'), 'as it was')
  const { COMPANIES_FILE = '', ...rest } = companies.environment
  const shared = { ...rest, DATA_DIR }
  const alone: Environment = { ...shared, API_KEY: companies.keyOf('acme') }

  const inFile = join(await temporaryDirectory(), 'companies.yaml')
  for (const name of NO_SLUGS) {
    await writeFile(
      inFile,
      JSON.stringify({ companies: JSON.parse(`{${JSON.stringify(name)}:{"api_key_file":"/none"}}`) }),
    )
    const refusals = {
      COMPANY: async () => readSettings({ ...alone, COMPANY: name }),
      'COMPANY beside a file': () => environmentOf({ ...shared, COMPANIES_FILE, COMPANY: name }),
      '--company of sync': () =>
        syncCommand(alone, () => Promise.reject(new Error('no daemon'))).parseAsync(
          ['--json', `--company=${name}`],
          { from: 'user' },
        ),
      '--company of query': () =>
        queryCommand({ ...shared, COMPANIES_FILE }).parseAsync(['FROM editais', `--company=${name}`], {
          from: 'user',
        }),
      'companies.yaml': () => readCompanies({ ...shared, COMPANIES_FILE: inFile }),
    }
    for (const [where, refused] of Object.entries(refusals)) {
      const message = await refusalOf(refused, `${where}: ${JSON.stringify(name)}`)
      expect(message, where).toMatch(/must be a short name|is not in /)
    }
  }
  for (const empty of ['', ' ']) {
    const refused = () => environmentOf(alone as AnyEnvironment, empty)
    expect(await refusalOf(refused, '--company')).toMatch(/^--company .*must be a short name/)
  }
  expect(await readdir(parent)).toEqual(['data', 'kept'])
  expect(await readdir(DATA_DIR)).toEqual([])
  expect(companies.sandbox.requests.total).toBe(0)
})

/** The message of the refusal. */
async function refusalOf(refused: () => Promise<unknown>, what: string): Promise<string> {
  const error = await refused().then(
    () => null,
    error => error,
  )
  expect(error, what).toBeInstanceOf(FatalError)
  expect(error.exitCode, what).toBe(EXIT.usage)
  return error.message
}

test('no path over HTTP reaches a company that does not exist, or its files', async () => {
  const dataDir = await temporaryDirectory()
  await writeFile(join(dataDir, 'status'), 'a stray file')
  const { url } = await serveWorker({ dataDir })
  const encoded = NO_SLUGS.filter(name => name.isWellFormed()).map(encodeURIComponent)
  for (const name of [
    ...encoded,
    '..%2f..',
    '%2e%2e%2facme',
    'acme%2f..%2fbeta',
    '%00',
    '..',
    '__proto__',
    '%E0%A4%A',
  ]) {
    for (const [method, what] of [
      ['GET', 'status'],
      ['GET', 'report'],
      ['POST', 'sync'],
    ] as const) {
      const { status, body } = await askRaw(url, method, `/companies/${name}/${what}`)
      expect([status, body.includes('a stray file')], `${method} ${name}/${what}`).toEqual([404, false])
    }
  }
  expect(await readdir(dataDir)).toEqual(['status'])
})

/** Requests the path unchanged: `fetch` would resolve its dots. */
function askRaw(url: string, method: string, path: string): Promise<{ status: number; body: string }> {
  const headers = { authorization: 'Bearer tok_7d1e0a52c9f84b36', 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    request(url, { method, path, headers }, async response => {
      const body = (await response.toArray()).join('')
      resolve({ status: response.statusCode ?? 0, body })
    })
      .on('error', reject)
      .end()
  })
}
