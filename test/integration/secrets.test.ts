import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { readApiSettings } from '#config/settings.ts'
import type { RawAnswer } from '#src/sandbox/faults.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { idOf, notices } from '#test/support/notices.ts'
import {
  type Environment,
  filesBelow,
  settingsFor,
  startCommand,
  temporaryDirectory,
} from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { KEY, startCompany } from '#test/support/synced.ts'
import { warehouseTables } from '#test/support/tables.ts'

const TRACE = { LOG_LEVEL: 'trace' }

/** All text below the data directory: plain files, unpacked segments and their raw bytes, the warehouse's rows. */
async function everythingWritten(environment: Environment): Promise<string> {
  const texts: string[] = []
  for (const [path, bytes] of await filesBelow(environment.DATA_DIR ?? '')) {
    texts.push(path, bytes.toString('latin1'))
    if (!path.endsWith('.zst')) continue
    const lines = zstdDecompressSync(bytes).toString('utf8')
    texts.push(lines)
    for (const [, raw = ''] of lines.matchAll(/"raw":"([^"]+)"/g))
      texts.push(Buffer.from(raw, 'base64').toString())
  }
  texts.push(JSON.stringify(await warehouseTables(environment)))
  return texts.join('\n')
}

test('the key is in nothing that a run writes or prints, however the run ends', async () => {
  const company = await startCompany(notices(1, 6), TRACE)
  const { environment, sandbox, faults } = company
  const output: string[] = []

  faults.plan = [
    { fault: 'truncate', kinds: ['analysis'], ids: [idOf(1)] },
    { fault: 'status', status: 500, kinds: ['analysis'], ids: [idOf(2)], first: 1 },
  ]
  const { child, ended } = startCommand(['sync', '--json'], environment, environment.DATA_DIR ?? '')
  faults.onRequest = async ({ kind, id }) => {
    if (kind !== 'analysis' || id !== idOf(3)) return
    output.push(await readFile(`/proc/${child.pid}/cmdline`, 'utf8'))
    // Also what exists only during the run, such as the holder of the company's lock.
    for (const bytes of (await filesBelow(environment.DATA_DIR ?? '')).values()) {
      output.push(bytes.toString('latin1'))
    }
  }
  const quarantined = await ended
  expect(quarantined.code).toBe(3)
  expect(output.join()).toMatch(/main\.js\0sync/)
  expect(output.join()).toContain('"what":"sync')
  faults.onRequest = undefined

  const unreachable = await runShared(['sync', '--json'], {
    ...environment,
    API_BASE_URL: 'http://127.0.0.1:9',
    API_RETRIES: '0',
  })
  expect(unreachable).toMatchObject({ code: 1 })
  sandbox.revoke(KEY)
  const refused = await runShared(['sync', '--json'], environment)
  expect(refused).toMatchObject({ code: 1 })
  expect(refused.stdout).toMatch(/API key refused \(401\)/)

  for (const { stdout, stderr } of [quarantined, unreachable, refused]) output.push(stdout, stderr)
  const written = await everythingWritten(environment)
  // The searched text really contains what the runs handled.
  expect(written).toContain('Objeto 3')
  expect(output.join('\n')).toContain('run finished')
  expect(written).not.toContain(KEY)
  expect(output.join('\n')).not.toContain(KEY)
})

test('a key in a file is read for each run, and stays as secret', async () => {
  const company = await startCompany(notices(1, 3))
  const path = join(await temporaryDirectory(), 'key')
  const { API_KEY: _, ...others } = company.environment
  const environment = { ...others, ...TRACE, API_KEY_FILE: path }
  await writeFile(path, 'edk_of_yesterday\n')
  const before = await runShared(['sync', '--json'], environment)
  expect(before).toMatchObject({ code: 1 })
  await writeFile(path, `${KEY}\r\n`, { mode: 0o600 })
  const after = await runShared(['sync', '--json'], environment)
  expect(after).toMatchObject({ code: 0 })
  const written = await everythingWritten(environment)
  expect(written).toContain('Objeto 3')
  for (const key of [KEY, 'edk_of_yesterday']) {
    for (const text of [written, before.stdout, before.stderr, after.stdout, after.stderr]) {
      expect(text).not.toContain(key)
    }
  }
})

test('a server that repeats the key in any form does not bring it into files, logs or output', async () => {
  const key = 'edk_a+b/c=d&e_91f2c7'
  const world = new World(notices(1, 7))
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key, world }] })
  onTestFinished(() => sandbox.close())
  const dataDir = await temporaryDirectory()
  const environment = { ...settingsFor({ url: sandbox.url, key, dataDir }), ...TRACE, API_RETRIES: '0' }
  const encoded = encodeURIComponent(key)
  const spelt = [
    key,
    encoded,
    key.replaceAll('/', '\\/'),
    key.replaceAll('+', '\\u002B').replaceAll('&', '\\u0026'),
  ]
  const document = (id: string) => JSON.stringify(world.entry(id)?.analysis)
  const answers: Readonly<Record<string, RawAnswer>> = {
    [idOf(1)]: { status: 403, body: JSON.stringify({ error: 'forbidden', detail: `Bearer ${key} may not` }) },
    [idOf(2)]: { status: 200, body: `<p>Asked with ${spelt.join(' and ')}</p>` },
    [idOf(3)]: {
      status: 200,
      body: document(idOf(3)).replace('{', `{"asked":"${spelt[2]}","${spelt[3]}":1,`),
    },
    [idOf(4)]: { status: 200, body: document(idOf(4)).replace('Razão', `?key=${encoded} ${key}${key}`) },
    [idOf(5)]: { status: 307, headers: { location: `http://127.0.0.1:9/${encoded}?${key}` }, body: key },
    [idOf(6)]: { status: 500, headers: { 'retry-after': key }, body: key },
  }
  sandbox.faults.respond = ({ kind, id }) => (kind === 'analysis' ? answers[id ?? ''] : undefined)
  const output = [await runShared(['sync', '--json'], environment)]
  expect(output[0]?.code).toBe(3)
  expect(JSON.parse(output[0]?.stdout ?? '')).toMatchObject({ loaded: 3, quarantined: 1, failed: 3 })
  // The list itself too: its error ends the run, in the server's words.
  sandbox.faults.respond = () => ({ status: 400, body: JSON.stringify({ error: spelt[1], detail: key }) })
  output.push(await runShared(['sync'], environment), await runShared(['status', '--json'], environment))
  expect(output.map(({ code }) => code)).toEqual([3, 2, 0])

  const texts = `${JSON.stringify(output)}\n${await everythingWritten(environment)}`
  for (const handled of ['Asked with *', 'rejected the request (400)', 'asked', '*'.repeat(2 * key.length)]) {
    expect(texts).toContain(handled)
  }
  // JSON within JSON doubles each backslash.
  for (const way of [
    ...spelt,
    JSON.stringify(spelt[2]).slice(1, -1),
    JSON.stringify(spelt[3]).slice(1, -1),
  ]) {
    expect(texts.includes(way), way).toBe(false)
  }
})

test('a message that repeats a header shows neither the key nor control characters', async () => {
  const stars = '*'.repeat(KEY.length)
  const cases: readonly [RawAnswer, string][] = [
    [
      { status: 302, headers: { location: `http://${KEY}.example/` }, body: '' },
      `redirects (302) to http://${stars}.example.`,
    ],
    [
      { status: 503, headers: { 'retry-after': `\u009b31m ${KEY}` }, body: '' },
      `rejects this request (503, Retry-After:  31m ${stars})`,
    ],
  ]
  for (const [answer, shown] of cases) {
    const { faults, syncHere } = await startCompany(notices(1, 4))
    faults.respond = ({ kind, id }) => (kind === 'analysis' && id === idOf(1) ? answer : undefined)
    const report = await syncHere()
    expect(report).toMatchObject({ status: 'partial', failed: 1 })
    expect(report.error).toContain(shown)
  }
})

test('a key set in place of the path of its file is not shown', () => {
  for (const key of [KEY, 'edk_a+b/c=d&e_91f2c7', `~/${KEY}`]) {
    for (const where of [{ API_KEY_FILE: key }, { API_KEY_FILE: `${key}\n`, API_KEY: 'edk_x' }]) {
      const read = () => readApiSettings({ API_BASE_URL: 'http://127.0.0.1:9', ...where })
      expect(read).toThrow(/^API_KEY_FILE \(not shown: [^)]*\) cannot be read: ENOENT\.$/)
      expect(read).not.toThrow(key)
    }
  }
})
