import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readCompanies } from '#config/companies.ts'
import { readSettings } from '#config/settings.ts'
import { companyPaths, makeDataDirectory, makeDirectories } from '#src/core/company/company.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { modesBelow } from '#test/support/other_users.ts'
import { companyDirectory, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'

const modeOf = async (path: string) => ((await stat(path)).mode & 0o7777).toString(8)

test('LAKE_MODE and LAKE_GROUP accept the usual notations; anything else is refused with a sentence', async () => {
  const lake = (LAKE_MODE?: string, LAKE_GROUP?: string) => readSettings({ LAKE_MODE, LAKE_GROUP }).lake
  expect(lake()).toEqual({ mode: null, group: null })
  expect(lake('0750', '0')).toEqual({ mode: 0o750, group: 0 })
  const [name, , id] = (await readFile('/etc/group', 'utf8')).split('\n')[1]?.split(':') ?? []
  expect(lake('700', name)).toEqual({ mode: 0o700, group: Number(id) })
  for (const wrong of ['0777', '0770', '640', '0o750', 'rwxr-x---', '1755'])
    expect(() => lake(wrong), wrong).toThrow(
      `LAKE_MODE=${wrong}: must be 0755 (all users can read), 0750 (only its group) or 0700 (only its owner).`,
    )
  expect(() => lake('0750', 'no-such-group')).toThrow(
    'LAKE_GROUP=no-such-group: is not a group in /etc/group. If the group is defined elsewhere, use its number.',
  )
  expect(() => lake('0750', '9999999999')).toThrow('LAKE_GROUP=9999999999: is not a valid group id.')
  expect(() => lake('0750', '-1')).toThrow('LAKE_GROUP=-1: is not a group in /etc/group')
})

test('each company in the file has its own LAKE_MODE and LAKE_GROUP', async () => {
  const file = join(await temporaryDirectory(), 'companies.yaml')
  const company = 'api_base_url: "http://127.0.0.1:9", api_key_file: /none'
  // YAML reads 0750 as a number.
  await writeFile(
    file,
    `companies:\n  acme: { ${company}, lake_mode: 0750, lake_group: 7 }\n  beta: { ${company} }\n`,
  )
  const { environments } = await readCompanies({ COMPANIES_FILE: file, LAKE_MODE: '0700' })
  const lakes = [...environments.values()].map(own => readSettings(own).lake)
  expect(lakes).toEqual([
    { mode: 0o750, group: 7 },
    { mode: 0o700, group: null },
  ])
})

test('a lake closed by hand stays closed, including its new snapshots', async () => {
  const company = await startCompany(notices(1, 4))
  await company.sync()
  const root = companyDirectory(company.environment)
  await chmod(join(root, 'lake'), 0o700)
  await chmod(root, 0o700)
  company.world.update(idOf(1), { edital: { objeto: 'Mudou' }, updatedAt: new Date('2026-11-20T12:00:00Z') })
  await company.sync()
  expect(await modeOf(root)).toBe('700')
  for (const [path, mode] of await modesBelow(join(root, 'lake', 'snapshots')))
    if (!path.endsWith('lake/snapshots')) expect(mode, path).toMatch(/^[47]00$/)
  expect((await runShared(['publish'], { ...company.environment, LAKE_MODE: '0755' })).code).toBe(0)
  expect(await modeOf(root)).toBe('711')
  for (const [path, mode] of await modesBelow(join(root, 'lake'))) expect(mode, path).toMatch(/^(444|755)$/)
})

test('DATA_DIR is closed if only this program uses it; otherwise its mode does not change', async () => {
  const place = await temporaryDirectory()
  let places = 0
  async function after(mode: number, prepare: (dataDir: string) => Promise<unknown>): Promise<string> {
    const dataDir = join(place, String(++places))
    await mkdir(dataDir)
    await chmod(dataDir, mode)
    await prepare(dataDir)
    await makeDirectories(companyPaths(dataDir, 'acme'))
    return await modeOf(dataDir)
  }
  const nothing = async () => {}
  expect(await after(0o755, nothing)).toBe('711')
  expect(await after(0o2775, nothing)).toBe('2711')
  expect(await after(0o700, nothing)).toBe('700')
  expect(await after(0o755, path => mkdir(join(path, 'beta/raw'), { recursive: true }))).toBe('711')
  expect(await after(0o755, path => mkdir(join(path, 'lost+found')))).toBe('711')
  expect(await after(0o755, path => writeFile(join(path, 'api_keys.sqlite'), ''))).toBe('711')
  // A home directory, a checkout, a directory of mounts, /tmp.
  expect(await after(0o755, path => writeFile(join(path, '.profile'), ''))).toBe('755')
  expect(await after(0o755, path => mkdir(join(path, 'src')))).toBe('755')
  expect(await after(0o1777, nothing)).toBe('1777')

  const made = join(place, 'not/there')
  await makeDataDirectory(made)
  expect(await modeOf(made)).toBe((0o711 & ~process.umask()).toString(8))
})
