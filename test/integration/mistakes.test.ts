import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { PROJECT } from '#test/support/docker.ts'
import { reportHere } from '#test/support/here.ts'
import { openCompany, type PreparedCompany } from '#test/support/prepared.ts'
import {
  companyDirectory,
  type Ended,
  type Environment,
  queryLatest,
  startCommand,
  temporaryDirectory,
} from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { KEY } from '#test/support/synced.ts'

const FULL_DISK = join(import.meta.dirname, '../support/full_disk.ts')

type Mistake = {
  readonly args: readonly string[]
  readonly settings?: Environment
  readonly without?: readonly string[]
  readonly code: number
  readonly expected: readonly (string | RegExp)[]
}

describe('a mistake', () => {
  it('with npm, which keeps what stands before two dashes, does nothing, and shows how to write it', async () => {
    const company = await openCompany(2)
    const explained = (kept: string, whole: string) =>
      expect.stringContaining(`npm kept ${kept} for itself. Nothing was done. Write: npx editais ${whole}\n`)
    const { PATH, HOME } = process.env
    const options = { cwd: PROJECT, env: { PATH, HOME, ...company.environment } }
    const run = promisify(execFile)('npm', ['run', 'sync', '--plan'], options)
    const stderr = explained('--plan', 'sync --plan')
    await expect(run).rejects.toMatchObject({ code: 2, stderr })
    // As npm passes on what it kept.
    for (const [args, kept, option, whole] of [
      [['sync'], { npm_config_id: 'n1', npm_config_full: 'true' }, '--full --id n1', 'sync --full --id n1'],
      [
        ['sync', '--full'],
        { npm_config_allow_mass_delete: 'true' },
        '--allow-mass-delete',
        'sync --full --allow-mass-delete',
      ],
      [['lake', 'publish'], { npm_config_new_log: 'true' }, '--new-log', 'lake publish --new-log'],
    ] as const)
      expect(
        await runShared(args, { ...company.environment, npm_lifecycle_event: args[0], ...kept }),
      ).toMatchObject({
        code: 2,
        stderr: explained(option, whole),
      })
    expect(company.sandbox.requests.total).toBe(0)
    expect(existsSync(companyDirectory(company.environment))).toBe(false)
  })

  it('in the settings is reported before anything is sent or written', async () => {
    const company = await openCompany(2)
    const directory = await temporaryDirectory()
    await writeFile(join(directory, 'empty'), ' \n')
    await expectMistakes(company, {
      'no key': {
        args: ['sync'],
        without: ['API_KEY'],
        code: 2,
        expected: ['API_KEY is not set', "app's settings"],
      },
      'a missing key file': {
        args: ['sync'],
        settings: { API_KEY_FILE: join(directory, 'none') },
        code: 2,
        expected: [`API_KEY_FILE (${join(directory, 'none')}) cannot be read: ENOENT`],
      },
      'an empty key file': {
        args: ['sync'],
        settings: { API_KEY_FILE: join(directory, 'empty') },
        code: 2,
        expected: ['is empty', "Write a key from the app's settings"],
      },
      'a key with white space': {
        args: ['sync'],
        settings: { API_KEY: `${KEY} ${KEY}` },
        code: 2,
        expected: ['API_KEY contains white space'],
      },
      'several invalid values at once': {
        args: ['sync'],
        settings: { API_BASE_URL: 'api.example.com', COMPANY: '../acme', API_CONCURRENCY: '0' },
        code: 2,
        expected: [
          'API_BASE_URL=api.example.com: must be an http',
          'COMPANY=../acme: ',
          'API_CONCURRENCY=0: ',
        ],
      },
      'the key in another setting': {
        args: ['sync'],
        settings: { API_CONCURRENCY: `Authorization: Bearer ${KEY}` },
        code: 2,
        expected: ['API_CONCURRENCY'],
      },
      'the key in the address': {
        args: ['sync'],
        settings: { API_BASE_URL: `https://${KEY}@api.example.com` },
        code: 2,
        expected: ['API_BASE_URL'],
      },
    })
    expect(company.sandbox.requests.total).toBe(0)
    expect(existsSync(companyDirectory(company.environment))).toBe(false)
  })

  it('on the command line is reported before anything is sent or written', async () => {
    const company = await openCompany(2)
    await expectMistakes(
      company,
      {
        'an unknown status': {
          args: ['sync', '--status', 'screening,open'],
          code: 2,
          expected: ['unknown status: open', 'screening, analysis, pricing, ready, discarded, expired'],
        },
        'an unknown option': {
          args: ['sync', '--ful'],
          code: 2,
          expected: ["unknown option '--ful'", '--full'],
        },
        'an unknown command': { args: ['synk'], code: 2, expected: ["unknown command 'synk'", 'sync'] },
        '--restart alone': { args: ['sync', '--restart'], code: 2, expected: ['--restart needs --full'] },
        '--full with --id': { args: ['sync', '--full', '--id', 'a1'], code: 2, expected: ['use --id alone'] },
        'an invalid id': {
          args: ['sync', '--id', '../x'],
          code: 2,
          expected: ['--id', 'Not a valid notice id'],
        },
        'a query without SQL': {
          args: ['query'],
          code: 2,
          expected: ['There is no SQL. Try: editais query'],
        },
        'SQL and a file of it': {
          args: ['query', 'SELECT 1', '--file', 'x.sql'],
          code: 2,
          expected: ['Use SQL or --file, not both'],
        },
        'a file of SQL that does not exist': {
          args: ['query', '--file', 'x.sql'],
          code: 2,
          expected: ['x.sql cannot be read: ENOENT'],
        },
        'a query before any sync': {
          args: ['query', 'SELECT 1'],
          code: 1,
          expected: ['no snapshot', 'editais sync'],
        },
        'status before any sync': { args: ['status'], code: 1, expected: ['no snapshot', 'editais sync'] },
      },
      { alone: true },
    )
    expect(company.sandbox.requests.total).toBe(0)
    expect(existsSync(companyDirectory(company.environment))).toBe(false)
  })

  it('in the address or the key is reported with what answers there', async () => {
    const company = await openCompany(2)
    const site = await startWebSite()
    await expectMistakes(
      company,
      {
        'a wrong key': {
          args: ['sync', '--json'],
          settings: { API_KEY: 'edk_acme_wrong' },
          code: 1,
          expected: ['API key refused (401)', 'set API_KEY'],
        },
        'a wrong key, with only errors logged': {
          args: ['sync'],
          settings: { API_KEY: 'edk_acme_wrong', LOG_LEVEL: 'error' },
          code: 1,
          expected: ['API key refused (401)'],
        },
        'nothing listens': {
          args: ['sync'],
          settings: { API_BASE_URL: await closedAddress(), API_RETRIES: '0' },
          code: 1,
          expected: [/the connection was refused \(127\.0\.0\.1:\d+, ECONNREFUSED\)/],
        },
        'nothing listens, before a plan': {
          args: ['sync', '--plan'],
          settings: { API_BASE_URL: await closedAddress(), API_RETRIES: '0' },
          code: 1,
          expected: ['The API could not be read: ', /the connection was refused .* Run again later\./],
        },
        'a web site': {
          args: ['sync'],
          settings: { API_BASE_URL: `${site}/home` },
          code: 1,
          expected: ['the body is not JSON', '<!DOCTYPE html>', 'Check API_BASE_URL'],
        },
        'a path that does not exist': {
          args: ['sync'],
          settings: { API_BASE_URL: `${site}/missing` },
          code: 1,
          expected: ['does not exist (404)', 'Set API_BASE_URL to the address before /api/v1'],
        },
      },
      { alone: true },
    )
  })

  it('in SQL is reported in the words of the database', async () => {
    const company = await openCompany(2)
    await reportHere(company.environment)
    await expectMistakes(company, {
      'no SQL': { args: ['query', 'SELEC 1'], code: 1, expected: ['The query failed', 'syntax error'] },
      'an unknown table': {
        args: ['query', 'FROM edital'],
        code: 1,
        expected: ['The query failed', 'edital'],
      },
      'a change': { args: ['query', 'DELETE FROM editais'], code: 1, expected: ['The query failed'] },
    })
  })
})

describe('a data directory', () => {
  const unwritable = (DATA_DIR: string): Mistake => ({
    args: ['sync'],
    settings: { DATA_DIR },
    code: 2,
    expected: [DATA_DIR, 'Set DATA_DIR to a directory that this user may write'],
  })

  it('that cannot be created is named, with what to do', async () => {
    const company = await openCompany(2)
    const file = join(await temporaryDirectory(), 'file')
    await writeFile(file, '')
    await expectMistakes(company, { 'below a file': unwritable(join(file, 'data')) })
    expect(company.sandbox.requests.total).toBe(0)
  })

  // Node's own recursive mkdir loops forever if a new name in an existing directory gives ENOENT.
  it('in a file system without new names, such as /proc, is named as well', async () => {
    const company = await openCompany(2)
    await expectMistakes(company, { 'below /proc': unwritable('/proc/editais') })
  }, 10_000)

  // Writing to /dev/full fails as on a full disk; only Linux has it.
  it.skipIf(!existsSync('/dev/full'))('on a full disk is reported, and what was loaded is safe', async () => {
    const company = await openCompany(3)
    const fullFor = (TEST_FULL_DISK: string): Mistake => ({
      args: ['sync'],
      code: 1,
      expected: ['The disk is full', 'Free some space'],
      settings: { TEST_FULL_DISK, NODE_OPTIONS: `--import ${FULL_DISK}` },
    })
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', added: 3, loaded: 3 })

    company.world.update(company.world.ids()[0] as string, { edital: { objeto: 'Outro' } })
    await expectMistakes(
      company,
      { 'while analyses are logged': fullFor('raw/000002.ndjson.zst.part') },
      { alone: true },
    )
    await expectMistakes(company, { 'while the list is read': fullFor('tmp/listed.ndjson') }, { alone: true })
    expect(await queryLatest(company.environment, 'SELECT count(*) AS loaded FROM analyses')).toEqual([
      { loaded: 3 },
    ])
  })
})

describe('another sync of the company', () => {
  it('is named to a sync that does not wait (4), and awaited by one that does', async () => {
    const company = await openCompany(3)
    company.sandbox.faults.plan.push({ fault: 'latency', ms: 2500, kinds: ['list'], first: 1 })
    const asked = new Promise<void>(resolve => {
      company.sandbox.faults.onRequest = () => resolve()
    })
    const cwd = await temporaryDirectory()
    const first = startCommand(['sync'], company.environment, cwd)
    await asked
    const waiting = startCommand(['sync', '--json', '--wait', '60'], company.environment, cwd)
    await expectMistakes(company, {
      'not waiting': {
        args: ['sync', '--wait', '0'],
        code: 4,
        expected: [`held by sync --company acme (process ${first.child.pid} on `, 'use --wait SECONDS'],
      },
    })
    expect(await first.ended).toMatchObject({ code: 0 })
    const { code, stdout } = await waiting.ended
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ status: 'ok', listed: 3, unchanged: 3, loaded: 0 })
  })
})

describe('an interrupted sync', () => {
  it('ends with 130, reports the stop, and publishes what it has', async () => {
    const company = await openCompany(4)
    company.sandbox.faults.plan.push({ fault: 'hang', kinds: ['analysis'] })
    const asked = new Promise<void>(resolve => {
      company.sandbox.faults.onRequest = ({ kind }) => (kind === 'analysis' ? resolve() : undefined)
    })
    const { child, ended } = startCommand(['sync', '--json'], company.environment, await temporaryDirectory())
    await asked
    child.kill('SIGINT')
    const { code, stdout, stderr } = await ended
    expect(code).toBe(130)
    expect(JSON.parse(stdout)).toMatchObject({ status: 'interrupted', listed: 4, not_attempted: 4 })
    expect(stderr).toContain('Stopping')
    const published = 'SELECT (SELECT status FROM sync_runs) AS status, count(*) AS notices FROM editais'
    expect(await queryLatest(company.environment, published)).toEqual([{ status: 'interrupted', notices: 4 }])
  })
})

describe('--help', () => {
  const OPTIONS: Readonly<Record<string, readonly string[]>> = {
    '': ['sync', 'status', 'query', 'replay', 'rebuild', 'publish', 'npx editais sync --help'],
    sync: [
      ...['--full', '--restart', '--plan', '--company', '--status', '--id', '--allow-mass-delete', '--wait'],
      ...['--json', '130 interrupted', 'sent again for 4 minutes; or for up to 10'],
    ],
    status: ['Usage: editais status [options]', '--company', '--json'],
    'keys create': ['Usage: editais keys create [options]', '--description'],
    query: ['--company', '--csv', '--json', '--file', '[sql]'],
    replay: ['--company', '--json'],
    rebuild: ['--company', '--json'],
    publish: ['--company', '--json'],
  }

  it('of every command names its options, and needs no settings', async () => {
    const cwd = await temporaryDirectory()
    const helps = await Promise.all(
      Object.keys(OPTIONS).map(async command => {
        const args = [...command.split(' '), '--help'].filter(arg => arg !== '')
        return [command, await runShared(args, {}, cwd)] as const
      }),
    )
    for (const [command, { code, stdout, stderr }] of helps) {
      expect({ code, stderr }, command).toEqual({ code: 0, stderr: '' })
      for (const option of OPTIONS[command] ?? []) expect(stdout, command).toContain(option)
    }
  })
})

it('prints its version, and needs no settings', async () => {
  const { version } = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8'))
  const printed = await runShared(['--version'], {}, await temporaryDirectory())
  expect(printed).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' })
})

/** Makes each mistake and checks the output. With `alone`, the first runs in its own process, which must end by itself. */
async function expectMistakes(
  company: PreparedCompany,
  mistakes: Readonly<Record<string, Mistake>>,
  { alone = false } = {},
): Promise<void> {
  const cwd = await temporaryDirectory()
  for (const [index, [name, mistake]] of Object.entries(mistakes).entries()) {
    const { args, settings = {}, without = [], code, expected } = mistake
    const given = Object.entries({ ...company.environment, ...settings })
    const environment = Object.fromEntries(given.filter(([setting]) => !without.includes(setting)))
    const ended = await run(alone && index === 0, args, environment, cwd)
    expect(ended.code, `${name}: ${ended.stderr}`).toBe(code)
    expectPlainWords(name, ended, expected)
  }
}

async function run(alone: boolean, args: readonly string[], environment: Environment, cwd: string) {
  return await (alone ? startCommand(args, environment, cwd).ended : runShared(args, environment, cwd))
}

function expectPlainWords(
  name: string,
  { stdout, stderr }: Ended,
  expected: readonly (string | RegExp)[],
): void {
  for (const words of expected) expect(stderr, name).toMatch(words)
  const all = `${stdout}${stderr}`
  expect(all, name).not.toMatch(/^\s+at |\\n\s+at /m)
  expect(all, name).not.toContain('Unexpected:')
  expect(all.includes(KEY), `${name} shows the key`).toBe(false)
}

/** A web site, not an API: HTML pages below `/home`, and 404 elsewhere. */
async function startWebSite(): Promise<string> {
  const server = createServer((request, response) => {
    const known = request.url?.startsWith('/home')
    response.writeHead(known ? 200 : 404, { 'content-type': 'text/html' })
    response.end(`<!DOCTYPE html><html><title>${known ? 'Welcome' : 'Not found'}</title></html>`)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** An address where a server no longer listens. */
async function closedAddress(): Promise<string> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return `http://127.0.0.1:${port}`
}
