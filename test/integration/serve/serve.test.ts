import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '#test/support/daemon.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, startCommand } from '#test/support/project.ts'
import { askAt } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/editais'

/** Starts `editais serve` on a free port; returns its address and process. */
async function startServe(environment: Environment) {
  const { child, ended } = startCommand(
    ['serve'],
    { ...environment, HTTP_PORT: '0', LOG_LEVEL: 'info' },
    environment.DATA_DIR as string,
  )
  const lines: string[] = []
  if (child.stderr) createInterface({ input: child.stderr }).on('line', line => void lines.push(line))
  const url = await until(
    () => lines.map(line => /Listening on (http:\S+?);/.exec(line)?.[1]).find(Boolean) ?? null,
    { what: () => `the address in the output: ${lines.join('\n')}` },
  )
  return { url, child, ended, lines }
}

test('serve answers while the API is down, describes itself, and exits on SIGTERM', async () => {
  const company = await startSynced(notices(1, 5))
  const { environment, sandbox } = company
  await sandbox.close()
  const key = (await runShared(['keys', 'create', '--description', 'CRM'], environment)).stdout.trim()
  const { url, child, ended, lines } = await startServe(environment)
  const ask = (path: string) => askAt(`${url}${path}`, { method: 'GET', headers: { 'x-api-key': key } })
  await until(async () => (await ask(PATH)).status === 200, { what: 'the snapshot' })
  const { body } = await ask(PATH)
  expect(JSON.parse(body.toString())).toMatchObject({ count: 5, total: 5 })

  expect(JSON.parse((await ask('/')).body.toString())).toMatchObject({ 'GET /docs': expect.any(String) })
  expect(JSON.parse((await ask('/healthz')).body.toString())).toEqual({ alive: true })
  const description = JSON.parse((await ask('/openapi.json')).body.toString())
  expect(description).toMatchObject({ openapi: expect.stringMatching(/^3\.1/), info: { version: '1.0.0' } })
  expect(Object.keys(description.paths)).toEqual([PATH, `${PATH}/{id}`, `${PATH}/{id}/analysis`])
  const page = await ask('/docs')
  expect(page.headers['content-type']).toContain('text/html')
  for (const [, source = ''] of page.body.toString().matchAll(/(?:src|href)="([^"]+)"/g)) {
    expect((await ask(source)).status, source).toBe(200)
  }
  expect((await ask('/docs/swagger-ui-secret.js')).status).toBe(404)

  child.kill('SIGTERM')
  expect(await ended).toMatchObject({ code: 0 })
  expect(lines.at(-1)).toContain('Stopped.')
  expect(lines.join('')).not.toContain(key)
})

test('settings that serve cannot use are reported in a sentence', async () => {
  const company = await startCompany(notices(1, 1))
  const taken = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  for (const [settings, said] of [
    [{ HTTP_PORT: String(port) }, `Port ${port} on 127.0.0.1 is already in use`],
    [{ HTTP_PORT: 'many' }, 'HTTP_PORT=many: must be a whole number'],
    [{ SERVE_MAX_RPS: '-1' }, 'SERVE_MAX_RPS=-1: must be a whole number'],
    [{ SERVE_CORS_ORIGINS: 'erp.example' }, 'SERVE_CORS_ORIGINS=erp.example: must be origins'],
    [{ DATA_DIR: '/proc/nothing' }, '/proc/nothing cannot be written (ENOENT)'],
  ] as const) {
    const ended = await runShared(['serve'], { ...company.environment, ...settings }, '/tmp')
    expect(ended, said).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toContain(said)
    expect(ended.stderr).not.toMatch(/\.ts:\d/)
  }
})
