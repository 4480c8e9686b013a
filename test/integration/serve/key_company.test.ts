import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { notices } from '#test/support/notices.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'

const create = (company: string) => ['keys', 'create', '--company', company, '--description', 'ERP']

test('a key can be created for a configured company, or one that still has data', async () => {
  const companies = await startCompanies(['acme', 'boreal'])
  await companies.configure({ acme: {}, boreal: {} })
  const { environment, file } = companies
  const dataDir = environment.DATA_DIR as string
  await mkdir(join(dataDir, 'former', 'lake'), { recursive: true })
  // Neither of these is a company with data.
  await mkdir(join(dataDir, 'empty'))
  await writeFile(join(dataDir, 'stray'), '')
  for (const slug of ['acme', 'boreal', 'former']) {
    expect(await runShared(create(slug), environment), slug).toMatchObject({ code: 0 })
  }
  for (const slug of ['acmee', 'empty', 'stray', 'default']) {
    const refused = await runShared(create(slug), environment)
    expect(refused, slug).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toBe(
      `--company ${slug}: no such company. Known companies: acme, boreal, former. Check the name, or first add the company to ${file}.\n`,
    )
  }
  const listed = await runShared(['keys', 'list', '--company', 'former', '--json'], environment)
  expect(JSON.parse(listed.stdout)).toMatchObject([{ company: 'former' }])
  expect(await runShared(['keys', 'list', '--company', 'acmee'], environment)).toMatchObject({ code: 2 })
})

test("without a companies' file, the company of the environment is known, and those with data", async () => {
  const { environment } = await startCompany(notices(1, 1))
  const dataDir = environment.DATA_DIR as string
  const refused = await runShared(create('beta'), environment)
  expect(refused).toMatchObject({ code: 2, stdout: '' })
  expect(refused.stderr).toContain('--company beta: no such company. Known companies: acme. Check the name')
  expect(await readdir(dataDir)).toEqual([])
  await mkdir(join(dataDir, 'beta', 'lake'), { recursive: true })
  for (const slug of ['acme', 'beta']) {
    expect(await runShared(create(slug), environment), slug).toMatchObject({ code: 0 })
  }
})
