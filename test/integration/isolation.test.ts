import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadCompanyEnvironment, readCompanies } from '#config/companies.ts'
import { type Environment as AnyEnvironment, readSettings } from '#config/settings.ts'
import { runInProcess } from '#jobs/process.ts'
import { openCompanyRegistry, type Company as RegisteredCompany } from '#jobs/queues/company_registry.ts'
import { createQueryCommand } from '#src/cli/query.ts'
import { createSyncCommand } from '#src/cli/sync.ts'
import { chooseExitCode } from '#src/core/company/run_report.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { askedFor, startCompanies } from '#test/support/companies.ts'
import { syncHere } from '#test/support/here.ts'
import { serveWorker } from '#test/support/http.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'
import { dataTables, warehouseTables } from '#test/support/tables.ts'
import { snapshots } from '#test/support/truth.ts'

const SLUGS = ['acme', 'boreal'] as const
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
  expect([chooseExitCode(report, causes), report.status, report.loaded]).toEqual([EXIT.failed, 'failed', 0])
  expect(report.error).toMatch(/^The API lists none .*another company.*Check API_KEY and COMPANY/)

  await companies.configure({ acme: { api_key_file: companies.keyFile('boreal'), log_level: 'silent' } })
  const { companies: known } = await openCompanyRegistry(companies.environment)
  const inWorker = await runInProcess({
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
      'COMPANY beside a file': () => loadCompanyEnvironment({ ...shared, COMPANIES_FILE, COMPANY: name }),
      '--company of sync': () =>
        createSyncCommand(alone, () => Promise.reject(new Error('no daemon'))).parseAsync(
          ['--json', `--company=${name}`],
          { from: 'user' },
        ),
      '--company of query': () =>
        createQueryCommand({ ...shared, COMPANIES_FILE }).parseAsync(['FROM editais', `--company=${name}`], {
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
    const refused = () => loadCompanyEnvironment(alone as AnyEnvironment, empty)
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
