import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { expect, onTestFinished, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { nextRun, OFTEN, startAcme } from '#test/support/daemon_runs.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { runCommand } from '#test/support/project.ts'

vi.setConfig(DAEMON_TEST)

type Received = { readonly headers: IncomingMessage['headers']; readonly body: string }

/** @param onMessage called before a message is accepted. */
async function startReceiver(
  onMessage: (body: string) => Promise<void>,
): Promise<{ readonly url: string; readonly received: Received[] }> {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const body = await text(request)
    await onMessage(body)
    received.push({ headers: request.headers, body })
    response.writeHead(202).end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, received }
}

test('what changes is posted to a receiver that subscribed, in the order of the log, and nothing twice over a restart', async () => {
  const { company, environment: given } = await startAcme(notices(1, 3))
  const environment = { ...given, SYNC_CRON: OFTEN, WEBHOOKS_ALLOW_PRIVATE: 'on' }
  const first = await startDaemon(environment)
  await nextRun(first, 'acme', 0)
  const command = (...args: string[]) => runCommand(args, environment)
  const key = (await command('keys', 'create', '--description', 'CRM')).stdout.trim()
  const prefix = key.slice(0, 12)
  // A receiver that reads the notice at once gets it.
  const read: number[] = []
  let mirror = first.url
  const { url, received } = await startReceiver(async body => {
    const { data } = JSON.parse(body) as { data: { edital_id?: string } }
    if (data.edital_id === undefined) return
    const path = `${mirror}/api/v1/editais/${data.edital_id}`
    read.push((await fetch(path, { headers: { 'x-api-key': key } })).status)
  })

  for (const [wrong, message] of [
    [['--key', 'edk_00000000', '--url', url], 'There is no valid key edk_00000000.'],
    [['--key', key, '--url', 'ftp://example.com'], '--url must be an address such as https://'],
    [['--key', key, '--url', url, '--events', 'all'], 'There is no event "all". Choose from notice_arrived'],
  ] as const) {
    const refused = await command('webhooks', 'add', ...wrong)
    expect(refused, message).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toContain(message)
  }
  const added = await command('webhooks', 'add', '--key', key, '--url', url, '--json')
  expect(added.code, added.stderr).toBe(0)
  const { id, secret } = JSON.parse(added.stdout) as { id: string; secret: string }
  const pinged = await command('webhooks', 'test', id)
  expect(pinged.stdout).toBe(`The receiver of ${id} accepted it (202).\n`)
  expect(received).toHaveLength(1)

  company.world.update(idOf(2), { edital: { objeto: 'Outro objeto' }, updatedAt: new Date() })
  const kinds = () => received.map(({ body }) => JSON.parse(body) as { type: string; data: object })
  await until(() => kinds().some(({ type }) => type === 'notice_changed'), { what: 'the change' })
  expect(kinds().find(({ type }) => type === 'notice_changed')?.data).toMatchObject({
    company: 'acme',
    edital_id: idOf(2),
    fields: expect.arrayContaining(['objeto']),
  })
  // It began with what was new.
  expect(kinds().some(({ type }) => type === 'notice_arrived')).toBe(false)
  for (const { body, headers } of received)
    new Webhook(secret).verify(body, headers as Record<string, string>)
  expect(await first.stop()).toBe(0)

  const list = await command('webhooks', 'list')
  expect(list.stdout).toContain(id)
  expect(list.stdout).toContain('sending')
  expect(list.stdout + first.lines.map(line => JSON.stringify(line)).join('')).not.toContain(secret)
  expect(list.stdout).toContain(prefix)
  const second = await startDaemon(environment)
  mirror = second.url
  for (const entry of notices(9, 9)) company.world.put(entry)
  await until(() => kinds().some(({ type }) => type === 'notice_arrived'), { what: 'the new notice' })
  await until(() => kinds().some(({ type }) => type === 'analysis_arrived'), { what: 'its analysis' })
  expect(read).toEqual(read.map(() => 200))
  const ids = received.map(({ headers }) => headers['webhook-id'])
  expect(new Set(ids).size).toBe(ids.length)
  expect(await command('webhooks', 'remove', id)).toMatchObject({
    code: 0,
    stdout: `Webhook ${id} is removed. Messages that waited for it are not sent.\n`,
  })
  expect(await command('webhooks', 'remove', id)).toMatchObject({ code: 2 })
  expect(await second.stop()).toBe(0)
})
