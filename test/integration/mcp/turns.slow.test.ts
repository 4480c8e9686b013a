import { spawnSync } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, test } from 'vitest'
import { until } from '#test/support/daemon.ts'
import { connectToCommand, connectToUrl } from '#test/support/mcp.ts'
import { notices } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const ENDLESS = 'SELECT sum(sin(a.range * b.range)) FROM range(10000000) a, range(10000000) b'

test('a key has few calls at once, others do not wait for them, and a client that leaves ends its query', async () => {
  const { environment } = await startSynced(notices(1, 2))
  const { url, keys, lines } = await serveApi(environment)
  const created = ['keys', 'create', '--description', 'agent', '--scopes', 'read,sql']
  const greedy = await connectToUrl(url, (await runShared(created, environment)).stdout.trim())
  const stop = new AbortController()
  let ended = 0
  const calls = Array.from({ length: 12 }, () =>
    greedy.client
      .callTool({ name: 'query', arguments: { sql: ENDLESS } }, { signal: stop.signal })
      .then(result => JSON.stringify(result))
      .catch(() => 'cancelled')
      .finally(() => ended++),
  )
  await until(() => lines.filter(line => line.includes('"tool":"query"')).length >= 4, {
    what: () => `refused calls:\n${lines.join('')}`,
  })
  const other = await connectToUrl(url, keys.acme as string)
  const found = await other.call('search_notices')
  expect(found.data.total).toBe(2)
  // Of twelve, four are refused, and two run: the next turn is the other key's, not that of the six that wait.
  expect(ended).toBeLessThanOrEqual(4 + 4)
  stop.abort()
  const outcomes = await Promise.all(calls)
  expect(outcomes.filter(one => one.includes('calls that run or wait, the maximum'))).toHaveLength(4)
  expect(outcomes.filter(one => one === 'cancelled').length).toBeGreaterThan(3)
})

/** Signals of requests are partly held by weak references, which a collection ends. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}

/** Processes of a server that read a snapshot. */
function readers(server = process.pid): number {
  // It exits with 1 if nothing is listed; the list is then empty.
  const { stdout: commands } = spawnSync('ps', ['--ppid', String(server), '-o', 'args='], {
    encoding: 'utf8',
  })
  return commands.split('\n').filter(command => command.includes('reader_process.js')).length
}

test('the query of a client that hangs up is killed at once', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const { url } = await serveApi(environment)
  const created = ['keys', 'create', '--description', 'agent', '--scopes', 'read,sql']
  const key = (await runShared(created, environment)).stdout.trim()
  const stop = new AbortController()
  const params = { name: 'query', arguments: { sql: ENDLESS } }
  const asked = fetch(`${url}/api/v1/mirror/mcp`, {
    method: 'POST',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    signal: stop.signal,
  }).then(
    () => 'answered',
    () => 'hung up',
  )
  await until(() => readers() === 1, { what: () => 'a process that reads' })
  collectGarbage()
  stop.abort()
  expect(await asked).toBe('hung up')
  const startedMs = performance.now()
  await until(() => readers() === 0, { what: () => 'the end of the process' })
  // Its own time limit would end it after ten.
  expect(performance.now() - startedMs).toBeLessThan(8000)
})

test('calls of a key that is revoked get no answer, whether they run or wait', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const { url, store } = await serveApi(environment)
  const created = ['keys', 'create', '--description', 'agent', '--scopes', 'read,sql']
  const key = (await runShared(created, environment)).stdout.trim()
  const { call } = await connectToUrl(url, key)
  const query = (sql: string) =>
    call('query', { sql }).then(
      ({ text }) => text,
      // Received after the key was revoked.
      error => String(error.message),
    )
  const slow = 'SELECT sum(sin(range)) FROM range(10000000)'
  const calls = [slow, slow, 'SELECT 1', 'SELECT 1'].map(query)
  await until(() => readers() === 2, { what: () => 'two processes that read' })
  store.revoke(key.slice(0, 12), new Date())
  const answers = await Promise.all(calls)
  for (const answer of answers)
    expect(answer).toMatch(/was revoked or has expired|unauthorized|took longer than 5 seconds/)
  expect(answers.join()).toContain('was revoked or has expired')
})

test('if the server is killed, nothing of a call is left; and what was left before is removed', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const temporary = join(environment.DATA_DIR as string, 'tmp')
  // No process has this number.
  await mkdir(join(temporary, 'editais-sync-mcp-4194305-1-left'), { recursive: true })
  const { client } = await connectToCommand({ ...environment, TMPDIR: temporary })
  const asked = client.callTool({ name: 'query', arguments: { sql: ENDLESS } }).catch(() => 'lost')
  const server = (client.transport as StdioClientTransport).pid as number
  await until(() => readers(server) === 1, { what: () => 'a process that reads' })
  const left = async () => (await readdir(temporary)).filter(name => name.startsWith('editais-sync-mcp'))
  expect(await left()).toHaveLength(1)
  process.kill(server, 'SIGKILL')
  expect(await asked).toBe('lost')
  await until(async () => (await left()).length === 0, { what: () => 'the end of its directory' })
})
