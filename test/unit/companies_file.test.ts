import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { environmentOf, readCompanies } from '#config/companies.ts'
import { readSettings } from '#config/settings.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const ENTRY = 'api_base_url: "http://127.0.0.1:9", api_key_file: /none'

async function fileOf(text: string): Promise<{ COMPANIES_FILE: string }> {
  const file = join(await temporaryDirectory(), 'companies.yaml')
  await writeFile(file, text)
  return { COMPANIES_FILE: file }
}

/** `<name>`: what a file that is wrong as a whole is, and what is said about it. */
const WRONG: Readonly<Record<string, readonly [text: string, says: string | RegExp]>> = {
  'a cron expression without quotes': [
    `companies:\n  acme:\n    sync_cron: */5 * * * *\n`,
    'line 3: a value that begins with * needs quotes. Write sync_cron: "*/5 * * * *"',
  ],
  'one of stars alone': [
    `companies:\n  acme:\n    sync_cron: * * * * *\n`,
    'line 3: a value that begins with * needs quotes. Write sync_cron: "* * * * *"',
  ],
  'a step alone': [
    'companies:\n  acme:\n    sync_cron: */5\n',
    'line 3: a value that begins with * needs quotes. Write sync_cron: "*/5"',
  ],
  'one between braces': [
    `companies:\n  acme: { api_key_file: /a, sync_cron: */5 * * * 1,3, api_max_rps: 5 }\n`,
    'line 2: a value that begins with * needs quotes. Write sync_cron: "*/5 * * * 1,3"',
  ],
  'the last one between braces': [
    `companies:\n  acme: { api_key_file: /a, sync_cron: * * * * * }\n`,
    'line 2: a value that begins with * needs quotes. Write sync_cron: "* * * * *"',
  ],
  'an alias of nothing': [
    'companies:\n  acme:\n    api_timeout_ms: *timeout\n',
    'line 3: *timeout refers to &timeout, which does not stand above it.',
  ],
  'aliases that multiply': [
    `${['x', 'x', 'x', 'x', 'x', 'x', 'x']
      .map((_, i) => `a${i}: &a${i} [${Array(12).fill(i === 0 ? 'x' : `*a${i - 1}`)}]`)
      .join('\n')}\ncompanies: {}\n`,
    'its aliases (*name) stand for one another, or for far too much',
  ],
  'an alias of what it is in': ['companies: &all\n  acme: *all\n', /its aliases|must be a text/],
  'a name that stands there twice': [
    `companies:\n  acme: { ${ENTRY} }\n  acme: { ${ENTRY} }\n`,
    'line 3: this name stands there twice',
  ],
  'a tab': ['companies:\n\tacme: {}\n', 'line 2 is indented with a tab'],
  'a bracket that stays open': ['companies: [acme', /line 1 is not YAML \(.*\)\. Check its indentation/],
  nothing: ['', 'it is empty: it needs companies.'],
  'comments alone': ['# companies:\n', 'it is empty'],
  'a text': ['acme\n', 'it must have `companies:`'],
  'companies without any': ['companies:\n', 'companies: must have the companies below it, by name'],
  'companies as a list': ['companies: [acme]\n', 'companies: must have the companies below it, by name'],
  'an unknown part': ['company: {}\ncompanies: {}\n', '"company" is not known here'],
  'defaults as a list': ['defaults: [a]\ncompanies: {}\n', 'defaults: its settings must stand below it'],
}

test.each(Object.entries(WRONG))('%s is told in plain words', async (_, [text, says]) => {
  const environment = await fileOf(text)
  const error = await readCompanies(environment).then(
    () => null,
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(FatalError)
  const { message, exitCode } = error as FatalError
  expect(exitCode).toBe(EXIT.usage)
  expect(message).toMatch(says)
  expect(message.startsWith(environment.COMPANIES_FILE)).toBe(true)
  expect(message).not.toMatch(/expected|received|Invalid input|alias at node end|Unexpected/)
})

/** An entry that is wrong, beside one that is right. */
const BROKEN: Readonly<Record<string, readonly [entry: string, says: string]>> = {
  'a text': ['yes', 'its settings must stand below it'],
  'a list': ['[api_key_file]', 'its settings must stand below it'],
  'a setting that is several': ['{ api_max_rps: { a: 1 } }', 'api_max_rps: must be a text, a number'],
  'no key': ['{ api_base_url: "http://x" }', 'give its key as api_key_file'],
  'a key': [`{ ${ENTRY}, api_key: edk_1 }`, 'api_key: a key does not belong into this file'],
  'an unknown setting': [`{ ${ENTRY}, colour: red }`, 'colour is no setting of a company'],
  'the prototype of all settings': [
    `{ ${ENTRY}, __proto__: { a: 1 } }`,
    '__proto__: must be a text, a number',
  ],
  'a schedule that never fires': [
    `{ ${ENTRY}, sync_cron: "0 0 31 2 *" }`,
    'SYNC_CRON=0 0 31 2 *: never fires',
  ],
  'a limit that is none': [`{ ${ENTRY}, run_timeout: 2 hours }`, 'RUN_TIMEOUT=2 hours: must be'],
  'one that looks like it': [`{ ${ENTRY}, __proto__: red }`, '__proto__ is no setting of a company'],
}

test.each(Object.entries(BROKEN))(
  'an entry that is %s breaks its company alone',
  async (_, [entry, says]) => {
    const environment = await fileOf(`companies:\n  acme: { ${ENTRY} }\n  boreal: ${entry}\n`)
    const { environments, broken, problem } = await readCompanies(environment)
    expect([...environments.keys()]).toEqual(['acme'])
    expect(problem).toBeNull()
    expect([...broken.keys()]).toEqual(['boreal'])
    expect(broken.get('boreal')).toContain(`${environment.COMPANIES_FILE}: boreal: ${says}`)
    expect(await environmentOf(environment, 'acme')).toMatchObject({ COMPANY: 'acme' })
    await expect(environmentOf(environment, 'boreal')).rejects.toThrow(says)
    await expect(environmentOf(environment)).rejects.toThrow('has acme, boreal. Say --company.')
  },
)

test.each(['__proto__', 'ACME', '../acme', ''])(
  'a company called %j is refused, the others are not',
  async name => {
    const environment = await fileOf(
      `companies:\n  acme: { ${ENTRY} }\n  ${JSON.stringify(name)}: { ${ENTRY} }\n`,
    )
    const { environments, broken, problem } = await readCompanies(environment)
    expect([...environments.keys()]).toEqual(['acme'])
    expect(broken.size).toBe(0)
    expect(problem).toContain(`companies: ${JSON.stringify(name)} must be a short name`)
  },
)

test('a company called like what every object has is one like others', async () => {
  const environment = await fileOf(`companies:\n  constructor: { ${ENTRY} }\n  valueof: { ${ENTRY} }\n`)
  const { environments } = await readCompanies(environment)
  expect([...environments.keys()]).toEqual(['constructor', 'valueof'])
})

test('a thousand companies may share a part, by an alias or by a merge', async () => {
  const companies = Array.from({ length: 1000 }, (_, index) =>
    index % 2 === 0 ? `  c${index}: *shared` : `  c${index}: { <<: *shared, api_timeout_ms: ${index} }`,
  )
  const environment = await fileOf(
    `defaults: &shared { ${ENTRY}, api_timeout_ms: 7000 }\ncompanies:\n${companies.join('\n')}\n`,
  )
  const { environments, broken } = await readCompanies(environment)
  expect(broken.size).toBe(0)
  expect(environments.size).toBe(1000)
  expect(environments.get('c10')).toMatchObject({ API_TIMEOUT_MS: '7000' })
  expect(environments.get('c11')).toMatchObject({ API_TIMEOUT_MS: '11', API_KEY_FILE: '/none' })
  expect(readSettings(environments.get('c11') ?? {}).company).toBe('c11')
})

test('a default that breaks each of a thousand companies is told of some of them', async () => {
  const companies = Array.from({ length: 1000 }, (_, index) => `  c${index}: { api_key_file: /none }`)
  const environment = await fileOf(
    `defaults: { api_base_url: "http://127.0.0.1:9", colour: red }\ncompanies:\n${companies.join('\n')}\n`,
  )
  const { message } = (await readCompanies(environment).catch(error => error)) as FatalError
  const lines = message.split('\n')
  expect(lines).toHaveLength(21)
  expect(lines[19]).toContain('c19: colour is no setting of a company')
  expect(lines[20]).toBe('And 980 others.')
})

const SECRET = 'T0k3n9b1c7e5f'
const SLIPS: readonly string[] = [
  `companies:\n  acme:\n    heartbeat_url: >https://h.example/${SECRET}\n`,
  `companies:\n  acme:\n    heartbeat_url: |${SECRET}\n`,
  `companies:\n  acme:\n    heartbeat_url: *${SECRET}\n`,
  `companies:\n  acme:\n    heartbeat_url: */${SECRET}\n`,
  `companies:\n  acme:\n    heartbeat_url: !${SECRET} x: y\n`,
  `companies:\n  acme:\n    https://h.example/${SECRET}: x\n`,
  `companies:\n  acme:\n    ${SECRET}: x\n`,
  `companies:\n  acme:\n    ${SECRET}: { a: 1 }\n`,
  `companies:\n  https://h.example/${SECRET}: {}\n`,
  `companies: {}\nhttps://h.example/${SECRET}: x\n`,
]

test.each(SLIPS)('a secret that slipped to where it does not belong is not repeated: %j', async text => {
  const { message } = (await readCompanies(await fileOf(text)).catch(error => error)) as FatalError
  expect(message).toMatch(/companies\.yaml: /)
  expect(message.toLowerCase()).not.toContain(SECRET.toLowerCase())
})
