import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, startCommand, temporaryDirectory } from '#test/support/project.ts'
import { KEY } from '#test/support/synced.ts'
import { KEYS, startOnTerminal } from '#test/support/terminal.ts'

const WRONG_KEY = 'edk_wrong_0123456789'

/** An empty directory, and an API of three notices for a company that is set up there. */
async function start() {
  const sandbox = await startSandbox({
    companies: [{ slug: 'acme', key: KEY, world: new World(notices(1, 3)) }],
  })
  onTestFinished(() => sandbox.close())
  const directory = await temporaryDirectory()
  const run = async (args: readonly string[], environment: Environment = {}) =>
    await startCommand(['init', ...args], environment, directory).ended
  const read = (file: string) => readFile(join(directory, file), 'utf8')
  return { directory, url: sandbox.url, run, read, given: { API_BASE_URL: sandbox.url, API_KEY: KEY } }
}

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o777
}

test('on a terminal, the address and the key are asked for until the API accepts them, then a plan and a run are offered', async () => {
  const { directory, url, read } = await start()
  const terminal = startOnTerminal(['init'], { LOG_LEVEL: 'warn' }, directory)
  await terminal.until(/before \/api\/v1: $/)
  let shown = await terminal.type(`${url}${KEYS.enter}`, /not shown\): $/)
  shown += await terminal.type(`${WRONG_KEY}${KEYS.enter}`, /\[default\]: $/)
  shown += await terminal.type(`acme${KEYS.enter}`, /API key refused \(401\).*before \/api\/v1 \[http/s)
  expect(await readdir(directory)).toEqual([])
  shown += await terminal.type(KEYS.enter, /not shown\): $/)
  shown += await terminal.type(`${KEY}${KEYS.enter}`, /\[acme\]: $/)
  shown += await terminal.type(KEYS.enter, /answers: 3 notices\..*what a first run would do\? \[Y\/n\]: $/s)
  expect(await read('.env')).toContain(`\nAPI_BASE_URL=${url}\nAPI_KEY=${KEY}\nCOMPANY=acme\n`)
  expect(await modeOf(join(directory, '.env'))).toBe(0o600)
  shown += await terminal.type(KEYS.enter, /3 to fetch.*Run it now\? \[Y\/n\]: $/s)
  expect(await readdir(directory)).toEqual(['.env'])
  shown += await terminal.type(KEYS.enter, /snapshot {2}.*lake\/snapshots/)
  // The terminal has no width.
  expect(shown.replaceAll(/\s/g, '')).toMatch(
    /✔Scanthelist:3of3notices.*✔Fetchanalyses:3of3analyses.*✔Publishthesnapshot/,
  )

  expect(await terminal.ended).toBe(0)
  for (const key of [KEY, WRONG_KEY]) expect(shown).not.toContain(key)
})

test('Ctrl-C and Ctrl-D at a question end it, and nothing is written', async () => {
  const { directory, url } = await start()
  for (const key of [KEYS.ctrlC, KEYS.ctrlD]) {
    const terminal = startOnTerminal(['init'], {}, directory)
    await terminal.until(/before \/api\/v1: $/)
    await terminal.type(`${url}${KEYS.enter}`, /not shown\): $/)
    await terminal.type(key, 'Interrupted.')
    expect(await terminal.ended).toBe(130)
  }
  expect(await readdir(directory)).toEqual([])
})

test('a script gives everything as variables, and what exists is never changed', async () => {
  const { directory, given, run, read } = await start()
  expect(await run(['--yes'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('API_BASE_URL is not set'),
  })
  expect(await run([], given)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no terminal to ask on'),
  })
  expect(await run(['--yes'], { ...given, API_KEY: WRONG_KEY })).toMatchObject({ code: 1 })
  expect(await readdir(directory)).toEqual([])

  expect(await run(['--yes'], given)).toMatchObject({ code: 0, stdout: '' })
  const before = await read('.env')
  expect(before).toContain('COMPANY=default\n')
  const again = await run(['--yes'], { ...given, COMPANY: 'acme' })
  expect(again).toMatchObject({ code: 2, stderr: expect.stringMatching(/\.env exists, and is not changed/) })
  expect(await read('.env')).toBe(before)
})

test('a company is added to the companies’ file, beside the one in .env, with its key in a file of its own', async () => {
  const { directory, given, run, read } = await start()
  await run(['--yes'], { ...given, COMPANY: 'first' })
  expect(await run(['--company', 'acme', '--yes'])).toMatchObject({ code: 0 })
  const file = join(directory, 'secrets/acme_api_key')
  expect(await read('config/companies.yaml')).toBe(
    `companies:\n  first:\n    api_key_env: API_KEY\n  acme:\n    api_key_file: ${file}\n`,
  )
  expect(await read('secrets/acme_api_key')).toBe(`${KEY}\n`)
  for (const path of [file, join(directory, 'config/companies.yaml')]) expect(await modeOf(path)).toBe(0o600)
  const status = await startCommand(['status', '--all'], {}, directory).ended
  expect(status.stdout).toContain('2 companies, 0 with problems.')

  await writeFile(join(directory, 'config/companies.yaml'), `# ours\n${await read('config/companies.yaml')}`)
  expect(await run(['--company', 'beta', '--yes'], { API_BASE_URL: given.API_BASE_URL })).toMatchObject({
    code: 0,
  })
  expect(await read('config/companies.yaml')).toMatch(/^# ours\n.*\n {2}beta:\n/s)
  for (const args of [[], ['--company', 'acme']])
    expect(await run([...args, '--yes'], given)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('lists'),
    })
  await writeFile(join(directory, 'secrets/gama_api_key'), 'other\n')
  const refused = await run(['--company', 'gama', '--yes'])
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('gama_api_key exists, and is not changed'),
  })
  expect(await read('config/companies.yaml')).not.toContain('gama')
})
