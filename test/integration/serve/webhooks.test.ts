import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Subscriptions } from '#src/server/webhooks/subscriptions.ts'
import { notices } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/mirror/webhooks'
const NOW = new Date('2026-11-25T12:00:00Z')

type Shown = { readonly webhooks: readonly { readonly id: string }[] }

test('a key sees its own webhooks and what they gave up, and replays it; an admin key, those of the company', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const dataDir = environment.DATA_DIR as string
  const api = await serveApi(environment)
  const create = (company: string, scopes: ('read' | 'feed' | 'admin')[]) =>
    api.store.create(company, 'CRM', NOW, null, { scopes, maxRps: null })
  const [mine, theirs, foreign] = [
    create('acme', ['feed']),
    create('acme', ['feed']),
    create('other', ['feed']),
  ]
  const idsFor = async (key: string) => (await api.json<Shown>(PATH, { key })).webhooks.map(({ id }) => id)
  // Nobody subscribed yet, so there is no file, and none is made.
  expect(await idsFor(mine)).toEqual([])

  const store = Subscriptions.open(dataDir, 1000)
  const url = 'https://hooks.example.com/secret-path'
  const subscribe = (key: string, company = 'acme') =>
    store.add({ company, key: key.slice(0, 12), url, events: null, cursor: null }, NOW).subscription
  const [own, of, other] = [subscribe(mine), subscribe(theirs), subscribe(foreign, 'other')]
  const deliveries = [{ id: 'msg_1', subscription: own.id, body: '{}' }]
  store.take(own, { deliveries, next: '1' }, NOW)
  store.noteDead('msg_1', 'the receiver refused it (500)', NOW)

  const answer = await api.ask(PATH, { key: mine })
  expect(JSON.parse(answer.body.toString())).toEqual({
    webhooks: [
      {
        id: own.id,
        key: mine.slice(0, 12),
        receiver: 'hooks.example.com',
        events: null,
        created_at: NOW.toISOString(),
        stopped_because: null,
        waiting: 0,
        given_up: 1,
        dead_letters: [{ id: 'msg_1', at: NOW.toISOString(), because: 'the receiver refused it (500)' }],
      },
    ],
  })
  expect(answer.body.toString()).not.toContain('secret')
  expect(await idsFor(create('acme', ['feed', 'admin']))).toEqual(
    store
      .list()
      .map(({ id }) => id)
      .filter(id => id !== other.id),
  )
  expect(await api.ask(PATH, { key: create('acme', ['read', 'admin']) })).toMatchObject({ status: 403 })

  const replay = (id: string, key: string) => api.ask(`${PATH}/${id}/replay`, { key, method: 'POST' })
  for (const [id, key] of [
    [own.id, theirs],
    [own.id, foreign],
    [of.id, mine],
    [other.id, create('acme', ['feed', 'admin'])],
    ['whk_00000000', mine],
  ] as const) {
    const refused = await replay(id, key)
    expect(refused.status).toBe(404)
    expect(JSON.parse(refused.body.toString())).toMatchObject({ error: 'webhook_not_found' })
  }
  expect(store.delivery('msg_1')).toBeNull()
  // The key that replaces it has its webhooks.
  const { key: successor } = api.store.rotate(mine.slice(0, 12), { now: new Date(), overlapMs: 0 })
  expect(await idsFor(successor)).toEqual([own.id])
  expect(JSON.parse((await replay(own.id, successor)).body.toString())).toEqual({ replayed: 1 })
  expect(store.delivery('msg_1')).toMatchObject({ id: 'msg_1' })
  expect(JSON.parse((await replay(own.id, successor)).body.toString())).toEqual({ replayed: 0 })
  store.close()
})

test('a file of webhooks that cannot be read gets 503 with a sentence, and its path stays in the log', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const dataDir = environment.DATA_DIR as string
  const api = await serveApi(environment)
  await writeFile(join(dataDir, 'webhooks.sqlite'), 'no database', { mode: 0o600 })
  const answer = await api.ask(PATH)
  expect(answer.status).toBe(503)
  expect(answer.headers['retry-after']).toBe('1')
  expect(answer.body.toString()).not.toContain(dataDir)
  expect(api.lines.join('')).toContain('webhooks.sqlite cannot be read or written')
})
