import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { readDaemonSettings } from '#config/daemon.ts'
import { ADMIN_TOKEN, DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER, redisSettings } from '#test/support/daemon_runs.ts'
import { basic, errorOf, STATUS, SYNC } from '#test/support/http.ts'
import { temporaryDirectory } from '#test/support/project.ts'

vi.setConfig(DAEMON_TEST)

const READ = 'tok_read_6c1f0b7e9d24'
const FULL = 'tok_full_a95e3d10c7b8'
const NEXT = 'tok_next_0f4b8c62d1e7'
const PAUSE = '/queues/api/queues/runs/pause'
const RESUME = '/queues/api/queues/runs/resume'

/** A file of tokens that only this user can read, and how to replace it as an editor or Kubernetes does. */
async function tokensFile(text: string) {
  const path = join(await temporaryDirectory(), 'tokens')
  const write = async (next: string, mode = 0o600) => {
    await writeFile(`${path}.new`, next)
    await chmod(`${path}.new`, mode)
    await rename(`${path}.new`, path)
  }
  await write(text)
  return { path, write }
}

async function startWithTokens(text: string) {
  const file = await tokensFile(text)
  const directory = await temporaryDirectory()
  const daemon = await startDaemon({
    ...(await redisSettings()),
    API_BASE_URL: 'http://127.0.0.1:9',
    API_KEY: 'k',
    API_RETRIES: '0',
    COMPANY: 'acme',
    DATA_DIR: join(directory, 'data'),
    SYNC_CRON: NEVER,
    ADMIN_TOKENS_FILE: file.path,
  })
  return {
    daemon,
    file,
    ask: (token: string, path: string, method = 'GET') => askAs(daemon, token, path, method),
  }
}

function askAs({ url }: Daemon, token: string, path: string, method = 'GET'): Promise<Response> {
  return fetch(`${url}${path}`, { method, headers: { authorization: `Bearer ${token}` } })
}

/** The audit lines: operator, method, path, result. */
function audited({ lines }: Daemon): unknown[] {
  return lines
    .filter(({ audit }) => audit === 'admin')
    .map(({ operator, method, path, address, result }) => [operator, method, path, address, result])
}

test('a token that may only read reads, and gets 403 for what changes something; each change is in the log', async () => {
  const { daemon, ask } = await startWithTokens(
    `# who  rights  token\ngrafana read ${READ}\n\nops\tfull\t${FULL}\r\n`,
  )
  await until(async () => (await ask(READ, '/queues/api/queues')).status === 200, { what: 'the queues' })
  expect((await ask(FULL, PAUSE, 'PUT')).status).toBe(200)
  for (const path of [SYNC, PAUSE, RESUME]) {
    const refused = await ask(READ, path, path === SYNC ? 'POST' : 'PUT')
    expect([path, refused.status]).toEqual([path, 403])
    expect((await errorOf(refused)).detail).toMatch(
      /^The token grafana may only read\. Use one with full rights for P/,
    )
  }
  expect((await ask(READ, '/queues')).status).toBe(200)
  // Without a snapshot there is nothing to show, but it may ask.
  expect((await ask(READ, STATUS)).status).toBe(409)
  const asPassword = { method: 'POST', headers: basic('anybody', READ) }
  expect((await fetch(`${daemon.url}${SYNC}`, asPassword)).status).toBe(403)
  expect((await ask(FULL, SYNC, 'POST')).status).toBe(202)
  expect((await ask(ADMIN_TOKEN, SYNC, 'POST')).status).toBe(202)
  expect((await ask(FULL, '/companies/nobody/sync', 'POST')).status).toBe(404)
  expect((await ask(`${FULL}x`, STATUS)).status).toBe(401)
  expect((await fetch(`${daemon.url}${STATUS}`)).status).toBe(401)
  const from = '127.0.0.1'
  const lines = await until(() => audited(daemon).length >= 9 && audited(daemon), { what: 'all audit lines' })
  expect(lines).toEqual([
    ['ops', 'PUT', PAUSE, from, 'accepted'],
    ['grafana', 'POST', SYNC, from, 'refused'],
    ['grafana', 'PUT', PAUSE, from, 'refused'],
    ['grafana', 'PUT', RESUME, from, 'refused'],
    ['grafana', 'POST', SYNC, from, 'refused'],
    ['ops', 'POST', SYNC, from, 'accepted'],
    ['ADMIN_TOKEN', 'POST', SYNC, from, 'accepted'],
    ['ops', 'POST', '/companies/nobody/sync', from, 'failed'],
    [null, 'GET', STATUS, from, 'refused'],
  ])
  const log = JSON.stringify(daemon.lines)
  for (const token of [READ, FULL, ADMIN_TOKEN]) expect(log).not.toContain(token)
})

test('a rotated token works and the old one stops, without a restart; a broken file refuses its tokens', async () => {
  const { daemon, file, ask } = await startWithTokens(`ops full ${FULL}\n`)
  await until(async () => (await ask(FULL, PAUSE, 'PUT')).status === 200, { what: 'Redis' })
  const statuses = async () =>
    await Promise.all([FULL, NEXT, ADMIN_TOKEN].map(async token => (await ask(token, STATUS)).status))
  expect(await statuses()).toEqual([409, 401, 409])
  await file.write(`ops full ${FULL}\nops-2 full ${NEXT}\n`)
  expect(await statuses()).toEqual([409, 409, 409])
  await file.write(`ops-2 read ${NEXT}\n`)
  expect(await statuses()).toEqual([401, 409, 409])
  expect((await ask(NEXT, SYNC, 'POST')).status).toBe(403)

  await file.write(`ops-2 full ${NEXT} and more\n`)
  expect(await statuses()).toEqual([503, 503, 409])
  expect((await errorOf(await ask(NEXT, STATUS))).detail).toBe(
    "The admin tokens cannot be read at the moment. The worker's log says why.",
  )
  const problem = `ADMIN_TOKENS_FILE (${file.path}) cannot be used: in line 1, there must be a name, read or full, and a token. Until it is fixed, its tokens are refused.`
  await daemon.waitFor(({ msg }) => msg === problem)
  await rm(file.path)
  await daemon.waitFor(({ msg }) => msg.includes('it cannot be read (ENOENT). Until'))
  await file.write(`ops-2 full ${NEXT}\n`)
  expect((await ask(NEXT, SYNC, 'POST')).status).toBe(202)
  expect(daemon.lines.filter(({ msg }) => msg === problem)).toHaveLength(1)
  const unread = daemon.lines.filter(({ msg }) => msg.startsWith('An admin token was refused: its file'))
  expect(unread).toHaveLength(3)
  expect(unread[0]).toMatchObject({ level: 'warn', operator: null, path: STATUS, result: 'refused' })
  expect(JSON.stringify(daemon.lines)).not.toMatch(new RegExp(`${FULL}|${NEXT}`))
})

test('a worker does not start with a file that it cannot use, and says so in one sentence', async () => {
  const { path } = await tokensFile(`ops full ${FULL}\nops read ${READ}\n`)
  const starting = startDaemon({ ...(await redisSettings()), ADMIN_TOKENS_FILE: path })
  await expect(starting).rejects.toThrow(
    `exited with 2:\nADMIN_TOKENS_FILE (${path}) cannot be used: in line 2, the name is the same as in another line.`,
  )
})

test.each([
  ['no token', '# none\n', 'it holds no token.'],
  [
    'garbage',
    '\0\u0001\ufffd\ufffd',
    'it cannot be read (it is in UTF-16, or has NUL characters: save it as UTF-8).',
  ],
  ['JSON', `{"ops": "${FULL}"}`, 'in line 1, there must be a name, read or full, and a token.'],
  ['a token alone', `\n${FULL}\n`, 'in line 2, there must be a name, read or full, and a token.'],
  ['another order', `${FULL} full ops`, 'in line 1, the name must have 1 to 15 of a-z, 0-9, - and _.'],
  ['other rights', `ops ${FULL} full`, 'in line 1, the second word must be read or full.'],
  ['a word of every object', `ops constructor ${FULL}`, 'in line 1, the second word must be read or full.'],
  ['a short token', 'ops full h0tS3cr3t', 'in line 1, the token must have at least 16 characters.'],
  [
    'letters of no header',
    `ops full ${FULL}é`,
    'in line 1, the token has characters that are invalid in a header.',
  ],
  ['a token twice', `a full ${FULL}\nb read ${FULL}`, 'in line 2, the token is the same as in another line.'],
  ['ADMIN_TOKEN again', `a read ${ADMIN_TOKEN}`, 'in line 1, the token is the same as ADMIN_TOKEN.'],
  ['a long file', `# ${'x'.repeat(70_000)}`, 'it is larger than 64 KiB.'],
])('a file with %s is refused with one sentence, which shows nothing of it', async (_, text, why) => {
  const { path } = await tokensFile(text)
  const environment = { ADMIN_TOKEN, ADMIN_TOKENS_FILE: path }
  expect(() => readDaemonSettings(environment)).toThrow(
    new RegExp(`^${escaped(`ADMIN_TOKENS_FILE (${path}) cannot be used: ${why}`)}$`),
  )
})

test('a file that others can read or change, a directory and a token instead of a path are refused', async () => {
  const { path, write } = await tokensFile('')
  const why = (file: string) => {
    try {
      readDaemonSettings({ ADMIN_TOKENS_FILE: file })
      return null
    } catch (error) {
      return (error as Error).message
    }
  }
  const text = `ops full ${FULL}\n`
  for (const mode of [0o644, 0o604, 0o660, 0o602]) {
    await write(text, mode)
    expect(why(path)).toBe(
      `ADMIN_TOKENS_FILE (${path}) cannot be used: its mode 0${mode.toString(8)} lets other users read or change it: run \`chmod 600\` on it.`,
    )
  }
  for (const mode of [0o400, 0o440, 0o600, 0o640]) {
    await write(text, mode)
    expect(why(path)).toBeNull()
  }
  const directory = join(await temporaryDirectory(), 'tokens')
  await mkdir(directory)
  expect(why(directory)).toMatch(/cannot be used: it is not a file\.$/)
  expect(why(FULL)).toBe(
    'ADMIN_TOKENS_FILE (not shown: it may be the secret itself instead of the path of its file) cannot be used: it cannot be read (ENOENT).',
  )
})

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
