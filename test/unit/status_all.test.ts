import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openCompanyRegistry } from '#jobs/queues/company_registry.ts'
import { listLakes } from '#src/cli/snapshot_sql.ts'
import { describeStandings, readStandings } from '#src/cli/status.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { noteFailure } from '#src/core/company/run_report.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const ENTRY = 'api_base_url: "http://127.0.0.1:9", api_key_file: /none'

async function configure(...companies: readonly string[]) {
  const directory = await temporaryDirectory()
  const COMPANIES_FILE = join(directory, 'companies.yaml')
  await writeFile(COMPANIES_FILE, ['companies:', ...companies.map(line => `  ${line}`), ''].join('\n'))
  return { COMPANIES_FILE, DATA_DIR: join(directory, 'data') }
}

test('companies that the worker cannot use are in trouble, and refused names are listed', async () => {
  const environment = await configure(
    `acme: { ${ENTRY} }`,
    `boreal: { ${ENTRY}, sync_cron: "0 0 31 2 *" }`,
    `cedro: { ${ENTRY}, run_timeout: 2 hours }`,
    `Delta: { ${ENTRY} }`,
  )
  const standings = await readStandings(environment)
  expect(standings).toMatchObject([
    { company: null, problem: expect.stringContaining('companies: "Delta" must be a short name') },
    { company: 'boreal', problem: expect.stringContaining('SYNC_CRON=0 0 31 2 *: never fires') },
    { company: 'cedro', problem: expect.stringContaining('RUN_TIMEOUT=2 hours: must be a duration') },
    { company: 'acme', problem: null },
  ])
  const lines = describeStandings(standings).split('\n')
  expect(lines[0]).toBe('3 companies, 2 with problems.')
  expect(lines[1]).toMatch(/^ {2}\S+companies\.yaml: companies: "Delta" must be a short name/)

  const registry = await openCompanyRegistry(environment)
  expect([...registry.broken.keys()]).toEqual(['boreal', 'cedro'])
  expect(registry.isInUse).toBe(true)
  await writeFile(environment.COMPANIES_FILE, 'companies: [')
  await registry.refresh()
  expect(registry.isInUse).toBe(false)
  expect([...registry.companies.keys()]).toEqual(['acme'])
})

test('the state of a broken company is read from the data directory of its own entry', async () => {
  const own = await temporaryDirectory()
  const environment = await configure(
    `acme: { ${ENTRY} }`,
    `boreal: { ${ENTRY}, data_dir: ${own}, api_timeout_ms: soon }`,
  )
  const paths = companyPaths(own, 'boreal')
  await mkdir(paths.root, { recursive: true })
  await noteFailure(paths, 'It died.', new Date())
  expect(await readStandings(environment)).toMatchObject([
    { company: 'boreal', status: 'failed', problem: expect.stringContaining('API_TIMEOUT_MS=soon') },
    { company: 'acme', status: null },
  ])
  expect(await listLakes(environment)).toContain(paths.lake)
})
