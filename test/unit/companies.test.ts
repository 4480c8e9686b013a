import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadCompanyEnvironment, readCompanies } from '#config/companies.ts'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { companyPaths, makeDirectories } from '#src/core/company/company.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const ENTRY = 'api_base_url: "http://127.0.0.1:9", api_key_file: /none'

async function fileOf(text: string): Promise<{ COMPANIES_FILE: string }> {
  const file = join(await temporaryDirectory(), 'companies.yaml')
  await writeFile(file, text)
  return { COMPANIES_FILE: file }
}

/** Files that are invalid as a whole, by what is wrong, with the expected message. */
const WRONG: Readonly<Record<string, readonly [text: string, expected: string | RegExp]>> = {
  'a cron expression without quotes': [
    `companies:\n  acme:\n    sync_cron: */5 * * * *\n`,
    'line 3: a value that begins with * needs quotes. Write sync_cron: "*/5 * * * *"',
  ],
  'one that is only stars': [
    `companies:\n  acme:\n    sync_cron: * * * * *\n`,
    'line 3: a value that begins with * needs quotes. Write sync_cron: "* * * * *"',
  ],
  'one that is only a step': [
    'companies:\n  acme:\n    sync_cron: */5\n',
    'line 3: a value that begins with * needs quotes. Write sync_cron: "*/5"',
  ],
  'one in braces': [
    `companies:\n  acme: { api_key_file: /a, sync_cron: */5 * * * 1,3, api_max_rps: 5 }\n`,
    'line 2: a value that begins with * needs quotes. Write sync_cron: "*/5 * * * 1,3"',
  ],
  'one at the end of braces': [
    `companies:\n  acme: { api_key_file: /a, sync_cron: * * * * * }\n`,
    'line 2: a value that begins with * needs quotes. Write sync_cron: "* * * * *"',
  ],
  'an alias without an anchor': [
    'companies:\n  acme:\n    api_timeout_ms: *timeout\n',
    'line 3: *timeout refers to &timeout, which is not defined above it.',
  ],
  'aliases that multiply': [
    `${['x', 'x', 'x', 'x', 'x', 'x', 'x']
      .map((_, i) => `a${i}: &a${i} [${Array(12).fill(i === 0 ? 'x' : `*a${i - 1}`)}]`)
      .join('\n')}\ncompanies: {}\n`,
    'its aliases (*name) refer to one another, or expand to far too much',
  ],
  'an alias of its own parent': ['companies: &all\n  acme: *all\n', /its aliases|must be text/],
  'a name that stands there twice': [
    `companies:\n  acme: { ${ENTRY} }\n  acme: { ${ENTRY} }\n`,
    'line 3: this name occurs twice',
  ],
  'a tab': ['companies:\n\tacme: {}\n', 'line 2 is indented with a tab'],
  'a bracket that stays open': [
    'companies: [acme',
    /line 1 is not valid YAML \(.*\)\. Check its indentation/,
  ],
  nothing: ['', 'the file is empty. It needs `companies:`.'],
  'comments alone': ['# companies:\n', 'the file is empty'],
  'a text': ['acme\n', 'the file must have `companies:`'],
  'companies without any': ['companies:\n', 'companies: must list the companies below it, by name'],
  'companies as a list': ['companies: [acme]\n', 'companies: must list the companies below it, by name'],
  'an unknown part': ['company: {}\ncompanies: {}\n', '"company" is not allowed at the top level'],
  'defaults as a list': ['defaults: [a]\ncompanies: {}\n', 'defaults: put its settings below it'],
}

test.each(Object.entries(WRONG))('a bad file is reported in plain words: %s', async (_, [text, expected]) => {
  const environment = await fileOf(text)
  const error = await readCompanies(environment).then(
    () => null,
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(FatalError)
  const { message, exitCode } = error as FatalError
  expect(exitCode).toBe(EXIT.usage)
  expect(message).toMatch(expected)
  expect(message.startsWith(environment.COMPANIES_FILE)).toBe(true)
  expect(message).not.toMatch(/expected|received|Invalid input|alias at node end|Unexpected/)
})

/** Invalid entries, each tested beside a valid one. */
const BROKEN: Readonly<Record<string, readonly [entry: string, expected: string]>> = {
  'a text': ['yes', 'put its settings below it'],
  'a list': ['[api_key_file]', 'put its settings below it'],
  'a setting that is several': ['{ api_max_rps: { a: 1 } }', 'api_max_rps: must be text, a number'],
  'no key': ['{ api_base_url: "http://x" }', 'set either api_key_file'],
  'a key': [`{ ${ENTRY}, api_key: edk_1 }`, 'api_key: do not put a key into this file'],
  'an unknown setting': [`{ ${ENTRY}, colour: red }`, 'line 3: colour is not a setting of a company'],
  'the prototype of all settings': [`{ ${ENTRY}, __proto__: { a: 1 } }`, '__proto__: must be text, a number'],
  'a schedule that never fires': [
    `{ ${ENTRY}, sync_cron: "0 0 31 2 *" }`,
    'SYNC_CRON=0 0 31 2 *: never fires',
  ],
  'an invalid limit': [`{ ${ENTRY}, run_timeout: 2 hours }`, 'RUN_TIMEOUT=2 hours: must be'],
  'a misspelled one': [
    `{ ${ENTRY}, sync_corn: "* * * * *" }`,
    'line 3: sync_corn is not a setting of a company. Did you mean sync_cron? A company',
  ],
  'one that looks like it': [
    `{ ${ENTRY}, __proto__: red }`,
    'line 3: __proto__ is not a setting of a company',
  ],
}

test.each(Object.entries(BROKEN))(
  'an invalid entry breaks only its own company: %s',
  async (_, [entry, expected]) => {
    const environment = await fileOf(`companies:\n  acme: { ${ENTRY} }\n  boreal: ${entry}\n`)
    const { environments, broken, problem } = await readCompanies(environment)
    expect([...environments.keys()]).toEqual(['acme'])
    expect(problem).toBeNull()
    expect([...broken.keys()]).toEqual(['boreal'])
    expect(broken.get('boreal')).toContain(`${environment.COMPANIES_FILE}: boreal: ${expected}`)
    expect(await loadCompanyEnvironment(environment, 'acme')).toMatchObject({ COMPANY: 'acme' })
    await expect(loadCompanyEnvironment(environment, 'boreal')).rejects.toThrow(expected)
    await expect(loadCompanyEnvironment(environment)).rejects.toThrow(
      'has acme, boreal. Name one with --company.',
    )
  },
)

test.each(['__proto__', 'ACME', '../acme', ''])(
  'a company named %j is refused, the others are not',
  async name => {
    const environment = await fileOf(
      `companies:\n  acme: { ${ENTRY} }\n  ${JSON.stringify(name)}: { ${ENTRY} }\n`,
    )
    const { environments, broken, problem } = await readCompanies(environment)
    expect([...environments.keys()]).toEqual(['acme'])
    expect(broken.size).toBe(0)
    expect(problem).toContain(`companies: ${JSON.stringify(name)} must be a short name`)
    expect(await loadCompanyEnvironment(environment, 'acme')).toMatchObject({ COMPANY: 'acme' })
    // Not "the only company": the other entry may be the one that is meant.
    await expect(loadCompanyEnvironment(environment)).rejects.toThrow(
      `companies: ${JSON.stringify(name)} must be`,
    )
  },
)

test('a company may be named like a property of every object', async () => {
  const environment = await fileOf(`companies:\n  constructor: { ${ENTRY} }\n  valueof: { ${ENTRY} }\n`)
  const { environments } = await readCompanies(environment)
  expect([...environments.keys()]).toEqual(['constructor', 'valueof'])
})

test('a thousand companies may share settings, by an alias or by a merge', async () => {
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

test('a key that is missing is named by its variable, with where to put it', async () => {
  const environment = await fileOf(
    'companies:\n  acme: { api_base_url: "http://127.0.0.1:9", api_key_env: ACME_KEY }\n',
  )
  const { environments } = await readCompanies(environment)
  expect(() => readApiSettings(environments.get('acme') ?? {})).toThrow(
    /^ACME_KEY \(api_key_env\) is not set\. .* Put it into the variable ACME_KEY\.$/,
  )
})

test('a default that breaks a thousand companies lists only the first of them', async () => {
  const companies = Array.from({ length: 1000 }, (_, index) => `  c${index}: { api_key_file: /none }`)
  const environment = await fileOf(
    `defaults: { api_base_url: "http://127.0.0.1:9", colour: red }\ncompanies:\n${companies.join('\n')}\n`,
  )
  const { message } = (await readCompanies(environment).catch(error => error)) as FatalError
  const lines = message.split('\n')
  expect(lines).toHaveLength(21)
  expect(lines[19]).toContain('c19: line 1: colour is not a setting of a company')
  expect(lines[20]).toBe('And 980 more.')
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

test.each(SLIPS)('a misplaced secret is not repeated: %j', async text => {
  const { message } = (await readCompanies(await fileOf(text)).catch(error => error)) as FatalError
  expect(message).toMatch(/companies\.yaml: /)
  expect(message.toLowerCase()).not.toContain(SECRET.toLowerCase())
})

test('the directories of many companies can be created at once, in a DATA_DIR that does not exist yet', async () => {
  const slugs = Array.from({ length: 20 }, (_, index) => `company-${index + 10}`)
  for (let round = 0; round < 6; round += 1) {
    const dataDir = join(await temporaryDirectory(), 'not', 'there', 'yet')
    // Each twice, as two workers would.
    await Promise.all([...slugs, ...slugs].map(slug => makeDirectories(companyPaths(dataDir, slug))))
    expect((await readdir(dataDir)).sort()).toEqual(slugs)
  }
})

test('a variable whose name is nearly that of a setting is warned of; no other one is', async () => {
  const misspelled = { SYNC_CORN: '1', API_CONCURENCY: '2', ANALYSIS_STATUS: 'ready' }
  const others = {
    API_KEY_ACME: 'k',
    HTTP_PROXY: 'p',
    AWS_REGION: 'r',
    HOST: 'h',
    LAKE_MODES: '',
    REDIS_URL: 'u',
    HTTP_HOST: '::',
  }
  const { warnings } = await readCompanies({
    ...(await fileOf(`companies:\n  acme: { ${ENTRY} }\n`)),
    ...misspelled,
    ...others,
  })
  expect(warnings).toEqual([
    'SYNC_CORN is not a setting, and has no effect. Did you mean SYNC_CRON?',
    'API_CONCURENCY is not a setting, and has no effect. Did you mean API_CONCURRENCY?',
    'ANALYSIS_STATUS is not a setting, and has no effect. Did you mean ANALYSIS_STATUSES?',
  ])
})
