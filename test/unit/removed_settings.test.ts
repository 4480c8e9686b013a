import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readCompanies } from '#config/companies.ts'
import { DAEMON_SETTINGS } from '#config/daemon.ts'
import { REMOVED_SETTINGS } from '#config/removed.ts'
import { COMPANY_SETTINGS, KEY_SETTINGS, SCHEDULE_SETTINGS } from '#config/settings.ts'
import { PROJECT } from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const NAMES = [...REMOVED_SETTINGS.keys()]
const ENTRY = 'api_base_url: "http://127.0.0.1:9", api_key_file: /none'

test.each(NAMES)(
  '%s is read nowhere, and who sets it is warned, in the environment and in the companies file',
  async name => {
    const known: readonly string[] = [
      ...COMPANY_SETTINGS,
      ...SCHEDULE_SETTINGS,
      ...DAEMON_SETTINGS,
      ...KEY_SETTINGS,
    ]
    expect(known).not.toContain(name)
    expect(readFileSync(join(PROJECT, '.env.example'), 'utf8')).not.toMatch(new RegExp(`^#?${name}=`, 'm'))
    const none = join(await temporaryDirectory(), 'none.yaml')
    const warning = `${name} is no longer a setting: ${REMOVED_SETTINGS.get(name)}. Remove it.`
    expect((await readCompanies({ COMPANIES_FILE: none, [name]: 'x' })).warnings).toEqual([warning])
    expect((await readCompanies({ COMPANIES_FILE: none, [name]: ' ' })).warnings).toEqual([])

    const file = join(await temporaryDirectory(), 'companies.yaml')
    const written = name.toLowerCase()
    await writeFile(
      file,
      `companies:\n  acme: { ${ENTRY}, ${written}: 5 }\n  boreal: { ${ENTRY}, ${written}: 7 }\n`,
    )
    const { environments, broken, warnings } = await readCompanies({ COMPANIES_FILE: file })
    expect([[...environments.keys()], broken.size]).toEqual([['acme', 'boreal'], 0])
    expect(warnings).toEqual([`${file}: acme, boreal: ${written}${warning.slice(name.length)}`])
  },
)

test('a warning does not repeat an invalid name, which may be a secret', async () => {
  const file = join(await temporaryDirectory(), 'companies.yaml')
  await writeFile(file, `companies:\n  acme: { ${ENTRY} }\n  T0k3n9b1c: { ${ENTRY}, sync_timezone: UTC }\n`)
  expect((await readCompanies({ COMPANIES_FILE: file })).warnings).toEqual([])
})
