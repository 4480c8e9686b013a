import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { notices } from '#test/support/notices.ts'
import { runCommand, temporaryDirectory } from '#test/support/project.ts'
import { startRemote } from '#test/support/remote_lake.ts'
import { startCompany } from '#test/support/synced.ts'

const HOOK = pathToFileURL(join(import.meta.dirname, '../support/log_modules.mjs')).href

/** Names of the packages that a command loads. */
async function packagesOf(args: readonly string[], environment: Readonly<Record<string, string>>) {
  const log = join(await temporaryDirectory(), 'modules')
  const ended = await runCommand(args, {
    ...environment,
    NODE_OPTIONS: `--import=${HOOK}`,
    TEST_MODULES: log,
  })
  expect(ended.code).toBe(0)
  const urls = (await readFile(log, 'utf8')).split('\n')
  return new Set(urls.flatMap(url => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? []))
}

test('the library of MCP is loaded only by its command', async () => {
  const { environment } = await startCompany(notices(1, 3))
  const library = '@modelcontextprotocol/server'
  for (const args of [
    ['sync', '--full'],
    ['query', 'SELECT 1'],
    ['keys', 'list'],
    ['serve', '--help'],
  ])
    expect([args[0], (await packagesOf(args, environment)).has(library)]).toEqual([args[0], false])
  // It ends with its input, which is empty.
  expect((await packagesOf(['mcp'], environment)).has(library)).toBe(true)
})

test('the client of the object store is loaded only if there is one', async () => {
  const { environment } = await startCompany(notices(1, 3))
  const clients = ['@aws-sdk/client-s3', 'avsc']
  for (const args of [['sync', '--full'], ['status'], ['publish'], ['doctor', '--quick']]) {
    const loaded = await packagesOf(args, environment)
    expect([args[0], loaded.has('@duckdb/node-api') || args[0] === 'status']).toEqual([args[0], true])
    expect([args[0], clients.filter(name => loaded.has(name))]).toEqual([args[0], []])
    if (args[0] === 'status') expect(loaded.has('undici')).toBe(false)
  }
  const remote = await startRemote()
  const loaded = await packagesOf(['sync', '--full'], remote.environment)
  expect(clients.filter(name => loaded.has(name))).toEqual(clients)
})
