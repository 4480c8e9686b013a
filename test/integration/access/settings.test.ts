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

test('LAKE_READERS is all, group, a named group or none; anything else is refused with a sentence', async () => {
  const lake = (LAKE_READERS?: string) => readSettings({ LAKE_READERS }).lake
  expect(lake()).toEqual({ mode: null, group: null })
  expect(lake('all')).toEqual({ mode: 0o755, group: null })
  expect(lake('group')).toEqual({ mode: 0o750, group: null })
  expect(lake('group:0')).toEqual({ mode: 0o750, group: 0 })
  expect(lake('none')).toEqual({ mode: 0o700, group: null })
  const [name, , id] = (await readFile('/etc/group', 'utf8')).split('\n')[1]?.split(':') ?? []
  expect(lake(`group:${name}`)).toEqual({ mode: 0o750, group: Number(id) })
  for (const wrong of ['0777', 'All', 'all:bi', 'none:0', 'group:', 'groups', 'rwxr-x---'])
    expect(() => lake(wrong), wrong).toThrow(
      `LAKE_READERS=${wrong}: must be all, none, group, or group: and a name, as in group:bi.`,
    )
  expect(() => lake('group:no-such-group')).toThrow(
    'LAKE_READERS=group:no-such-group: is not a group in /etc/group. If the group is defined elsewhere, use its number.',
  )
  expect(() => lake('group:9999999999')).toThrow('LAKE_READERS=group:9999999999: is not a valid group id.')
  expect(() => lake('group:-1')).toThrow('LAKE_READERS=group:-1: is not a group in /etc/group')
})

test('each company in the file has its own LAKE_READERS', async () => {
  const file = join(await temporaryDirectory(), 'companies.yaml')
  const company = 'api_base_url: "http://127.0.0.1:9", api_key_file: /none'
  await writeFile(
    file,
    `companies:\n  acme: { ${company}, lake_readers: "group:7" }\n  beta: { ${company} }\n`,
  )
  const { environments } = await readCompanies({ COMPANIES_FILE: file, LAKE_READERS: 'none' })
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
  expect((await runShared(['publish'], { ...company.environment, LAKE_READERS: 'all' })).code).toBe(0)
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
