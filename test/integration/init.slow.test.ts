import { lstat, mkdir, readdir, readFile, rmdir, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, startCommand, temporaryDirectory } from '#test/support/project.ts'
import { KEY } from '#test/support/synced.ts'
import { KEYS, startOnTerminal } from '#test/support/terminal.ts'

const WRONG_KEY = 'edk_wrong_0123456789'
const OTHER_KEY = 'edk_other_0123456789'

/** An empty directory, and an API of three notices for a company that is set up there. */
async function start() {
  const sandbox = await startSandbox({
    companies: [
      { slug: 'first', key: KEY, world: new World(notices(1, 3)) },
      { slug: 'acme', key: OTHER_KEY, world: new World(notices(1, 5)) },
    ],
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
    stderr: expect.stringContaining('give the key as a variable'),
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
  const { directory, url, given, run, read } = await start()
  await run(['--yes'], { ...given, COMPANY: 'first' })
  // The key in .env is that of another company.
  expect(await run(['--company', 'acme', '--yes'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('give the key as a variable'),
  })
  const added = await run(['--company', 'acme', '--yes'], { API_KEY: OTHER_KEY })
  expect(added).toMatchObject({ code: 0, stderr: expect.stringContaining('answers: 5 notices.') })
  const file = join(directory, 'secrets/acme_api_key')
  const entries = `  first:\n    api_key_env: API_KEY\n  acme:\n    api_base_url: ${url}\n    api_key_file: ${file}\n`
  expect(await read('config/companies.yaml')).toBe(`companies:\n${entries}`)
  expect(await read('secrets/acme_api_key')).toBe(`${OTHER_KEY}\n`)
  for (const path of [file, join(directory, 'config/companies.yaml')]) expect(await modeOf(path)).toBe(0o600)
  for (const company of ['first', 'acme'])
    expect(await startCommand(['sync', '--company', company], {}, directory).ended).toMatchObject({ code: 0 })

  for (const args of [[], ['--company', 'acme']]) {
    const again = await run([...args, '--yes'], { ...given, API_KEY: OTHER_KEY })
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('lists') })
  }
  await writeFile(join(directory, 'secrets/gama_api_key'), 'other\n')
  const refused = await run(['--company', 'gama', '--yes'], { API_KEY: OTHER_KEY })
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('gama_api_key exists, and is not changed'),
  })
  expect(await read('config/companies.yaml')).not.toContain('gama')
})

test('a file of the key is named, not copied; comments, mode and link of the companies’ file stay', async () => {
  const { directory, given, url, run, read } = await start()
  const [keyFile, otherFile] = [join(directory, 'key'), join(directory, 'other')]
  await writeFile(keyFile, `${KEY}\n`)
  await writeFile(otherFile, `${OTHER_KEY}\n`)
  const { API_KEY: _, ...address } = given
  expect(await run(['--yes'], { ...address, API_KEY_FILE: keyFile, COMPANY: 'first' })).toMatchObject({
    code: 0,
  })
  expect(await read('.env')).toContain(`API_KEY_FILE=${keyFile}\n`)
  expect(await read('.env')).not.toContain(KEY)

  const real = join(directory, 'real.yaml')
  await writeFile(real, '# ours\ncompanies:\n  first: { api_key_file: key } # with a comment\n', {
    mode: 0o640,
  })
  await mkdir(join(directory, 'config'))
  await symlink(real, join(directory, 'config/companies.yaml'))
  expect(await run(['--company', 'acme', '--yes'], { API_KEY_FILE: otherFile })).toMatchObject({ code: 0 })
  expect(await readFile(real, 'utf8')).toBe(
    `# ours\ncompanies:\n  first: { api_key_file: key } # with a comment\n  acme:\n    api_base_url: ${url}\n    api_key_file: ${otherFile}\n`,
  )
  expect(await modeOf(real)).toBe(0o640)
  expect((await lstat(join(directory, 'config/companies.yaml'))).isSymbolicLink()).toBe(true)
})

test('a company alone gets no invented neighbour, and data that nobody would sync are named', async () => {
  const { directory, given, run, read } = await start()
  await mkdir(join(directory, 'data/default'), { recursive: true })
  const refused = await run(['--company', 'acme', '--yes'], given)
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('has the data of default') })
  await rmdir(join(directory, 'data/default'))
  expect(await run(['--company', 'acme', '--yes'], given)).toMatchObject({ code: 0 })
  expect(await read('config/companies.yaml')).toMatch(/^companies:\n {2}acme:\n/)
})

test('what is not the API is named as such, and nothing is written', async () => {
  const { directory, run } = await start()
  for (const body of ['<html>hello</html>', '{}', 'null']) {
    const server = createServer((_, response) => response.end(body))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const API_BASE_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const refused = await run(['--yes'], { API_BASE_URL, API_KEY: KEY })
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('not as the notice API does') })
    expect(refused.stderr).not.toContain('bug')
  }
  expect(await readdir(directory)).toEqual([])
})
