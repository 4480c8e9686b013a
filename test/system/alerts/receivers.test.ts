import { writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readDaemonSettings } from '#config/daemon.ts'
import { openOutbox } from '#jobs/alerts/outbox.ts'
import { ACCEPTED, REFUSED, setUpAlerts } from '#test/support/alerting.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { OPSGENIE_KEY, PAGERDUTY_KEY, SLACK_PATH, startReceivers } from '#test/support/receivers.ts'
import { scanAll } from '#test/support/redis.ts'
import { received } from '#test/support/webhook.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const FULL = { name: 'disk_low', company: null, subject: '/srv/a b', message: 'Full.' } as const

/** A worker that sends to all receivers, on a server with all of them. */
async function setUpReceivers() {
  const scene = await setUpAlerts()
  const receivers = await startReceivers()
  const { settings } = receivers
  return {
    ...scene,
    receivers,
    worker: (more: Record<string, string> = {}, timeoutMs = 5000) =>
      scene.worker({ webhookUrl: null, settings: { ...settings, ...more }, timeoutMs }),
    sentTo: (to: string) => receivers.understood.filter(one => one.to === to),
  }
}

test('PagerDuty gets a trigger, the same again while it lasts, and a resolve with its key', async () => {
  const { redis, clock, worker, receivers, sentTo } = await setUpReceivers()
  const alerts = worker()
  await alerts.raise({ ...REFUSED, details: { status: 401 } })
  await alerts.deliver()
  const trigger = {
    routing_key: PAGERDUTY_KEY,
    dedup_key: `editais-sync.${redis.prefix}.key_refused.acme`,
    event_action: 'trigger',
    client: 'editais-sync',
    payload: {
      summary: '[editais-sync] acme: The API refuses the key.',
      source: 'acme',
      severity: 'critical',
      timestamp: '2026-11-21T12:00:00.000Z',
      component: 'editais-sync',
      class: 'key_refused',
      custom_details: { status: 401, message: 'The API refuses the key.', repeated: 0 },
    },
  }
  expect(sentTo('pagerduty').map(({ body }) => body)).toEqual([trigger])
  clock.pass(12 * HOUR)
  await alerts.deliver()
  expect(sentTo('pagerduty')[1]?.body).toMatchObject({
    event_action: 'trigger',
    dedup_key: trigger.dedup_key,
    payload: { custom_details: { repeated: 1 } },
  })
  expect(receivers.open('pagerduty')).toEqual([trigger.dedup_key])
  await alerts.clear(ACCEPTED)
  await alerts.deliver()
  expect(sentTo('pagerduty')[2]?.body).toEqual({
    routing_key: PAGERDUTY_KEY,
    dedup_key: trigger.dedup_key,
    event_action: 'resolve',
  })
  expect([receivers.open('pagerduty'), receivers.misunderstood]).toEqual([[], []])
})

test('Opsgenie gets an alert by its alias, the same again while it lasts, and a close', async () => {
  const { redis, clock, worker, receivers, sentTo } = await setUpReceivers()
  const alerts = worker()
  const message = `Muito longa 😀 ${'ç'.repeat(300)}`
  await alerts.raise({ ...REFUSED, name: 'stale', message, details: { open: 3, last_good_at: null } })
  await alerts.deliver()
  const alias = `editais-sync.${redis.prefix}.stale.acme`
  const text = `[editais-sync] acme: ${message}`
  const [created] = sentTo('opsgenie')
  expect(created?.body).toEqual({
    alias,
    message: expect.stringMatching(/ç…$/),
    description: text,
    tags: ['warning', 'stale'],
    details: { open: '3', last_good_at: 'null', since: '2026-11-21T12:00:00.000Z' },
    entity: 'acme',
    source: 'editais-sync',
    priority: 'P3',
  })
  expect([...`${created?.body.message}`]).toHaveLength(130)
  clock.pass(12 * HOUR)
  await alerts.deliver()
  expect(receivers.open('opsgenie')).toEqual([alias])
  await alerts.clear({ ...ACCEPTED, name: 'stale', message: 'A good run ended.' })
  await alerts.deliver()
  expect(sentTo('opsgenie').map(({ action, key }) => [action, key])).toEqual([
    ['create', alias],
    ['create', alias],
    ['close', alias],
  ])
  expect(sentTo('opsgenie')[2]?.body).toEqual({
    source: 'editais-sync',
    note: '[editais-sync] acme: A good run ended.',
  })
  expect([receivers.open('opsgenie'), receivers.misunderstood]).toEqual([[], []])
})

test('Slack gets one line for each change and repetition, in which no text notifies a channel', async () => {
  const { clock, worker, receivers, sentTo } = await setUpReceivers()
  const alerts = worker()
  await alerts.raise({ ...REFUSED, message: 'The API said: <!channel> & more.' })
  await alerts.deliver()
  clock.pass(12 * HOUR)
  await alerts.deliver()
  await alerts.clear(ACCEPTED)
  await alerts.deliver()
  const what = 'The API said: &lt;!channel&gt; &amp; more.'
  expect(sentTo('slack').map(({ body }) => body)).toEqual([
    { text: `:red_circle: [editais-sync] acme: ${what}` },
    { text: `:red_circle: [editais-sync] acme: Still, since 2026-11-21T12:00:00.000Z: ${what}` },
    { text: ':white_check_mark: [editais-sync] acme: The API accepts the key again.' },
  ])
  expect(receivers.misunderstood).toEqual([])
})

test('a problem of the worker itself has a key without its path, and names the host', async () => {
  const { redis, worker, receivers, sentTo } = await setUpReceivers()
  const alerts = worker()
  await alerts.raise(FULL)
  await alerts.deliver()
  const [trigger] = sentTo('pagerduty')
  expect(trigger?.key).toMatch(new RegExp(`^editais-sync\\.${redis.prefix}\\.disk_low\\.[0-9a-f]{16}$`))
  expect(trigger?.body).toMatchObject({ payload: { source: hostname(), severity: 'warning' } })
  expect(receivers.open('opsgenie')).toEqual([trigger?.key])
  await alerts.clear({ ...FULL, message: 'Space.' })
  await alerts.deliver()
  expect([receivers.open('pagerduty'), receivers.open('opsgenie')]).toEqual([[], []])
})

test('each receiver gets critical alerts, those of ALERT_WARNINGS_TO warnings, too, and the end of all that it knows', async () => {
  const { webhook, clock, worker, receivers, sentTo } = await setUpReceivers()
  const routed = {
    ALERT_WEBHOOK_URL: webhook.url,
    ALERT_WARNINGS_TO: 'slack, webhook, opsgenie',
  }
  const alerts = worker(routed)
  await alerts.raise(REFUSED)
  clock.pass(1)
  await alerts.raise(FULL)
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'disk_low raised'])
  expect(sentTo('pagerduty').map(({ body }) => body.payload)).toMatchObject([{ class: 'key_refused' }])
  expect([sentTo('slack').length, sentTo('opsgenie').length]).toEqual([2, 2])

  // Another worker sends warnings to PagerDuty as well.
  const other = worker({ ...routed, ALERT_WARNINGS_TO: 'pagerduty' })
  await other.deliver()
  expect(sentTo('pagerduty').map(({ action }) => action)).toEqual(['trigger', 'trigger'])
  await other.clear(ACCEPTED)
  await other.clear({ ...FULL, message: 'Space.' })
  await other.deliver()
  expect([receivers.open('pagerduty'), receivers.open('opsgenie')]).toEqual([[], []])
  expect(received(webhook).toSorted()).toEqual(
    ['disk_low', 'key_refused'].flatMap(name => [`${name} raised`, `${name} recovered`]),
  )
})

test('no receiver gets warnings with none', async () => {
  const { worker, sentTo } = await setUpReceivers()
  const alerts = worker({ ALERT_WARNINGS_TO: 'none' })
  await alerts.raise(FULL)
  await alerts.deliver()
  expect([...sentTo('pagerduty'), ...sentTo('slack')]).toEqual([])
})

test('a repetition comes after the set time, in any worker once, and never with 0', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const workers = [{ ALERT_REPEAT: '2h' }, { ALERT_REPEAT: '2h' }].map(settings => worker({ settings }))
  const deliver = () => Promise.all(workers.map(alerts => alerts.deliver()))
  await workers[0]?.raise(REFUSED)
  await deliver()
  for (let minutes = 0; minutes < 360; minutes += 30) {
    clock.pass(30 * MINUTE)
    await deliver()
  }
  expect(
    webhook.messages.map(({ repeated, at, text }) => [repeated, at, text.includes('Still, since')]),
  ).toEqual([0, 1, 2, 3].map(repeated => [repeated, '2026-11-21T12:00:00.000Z', repeated > 0]))
  // A receiver that skips an id that it knows takes each.
  expect(new Set(webhook.messages.map(({ id }) => id)).size).toBe(4)
  await workers[1]?.clear(ACCEPTED)
  await deliver()
  expect(webhook.messages.at(-1)).toMatchObject({ state: 'recovered', repeated: 0 })

  const never = worker({ settings: { ALERT_REPEAT: '0' } })
  await never.raise(REFUSED)
  await never.deliver()
  clock.pass(1000 * HOUR)
  await never.deliver()
  expect(webhook.messages).toHaveLength(6)
})

test('a repetition without an answer is sent again unchanged; a refused one is tried later', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker({ timeoutMs: 100 })
  await alerts.raise(REFUSED)
  await alerts.deliver()
  clock.pass(12 * HOUR)
  webhook.answer = () => {}
  await alerts.deliver()
  webhook.answer = (_, response) => void response.writeHead(503).end()
  clock.pass(MINUTE)
  await alerts.deliver()
  webhook.answer = (_, response) => void response.end()
  clock.pass(MINUTE)
  await alerts.deliver()
  await alerts.deliver()
  const [first, ...repetitions] = webhook.messages
  expect(repetitions).toHaveLength(3)
  expect(new Set(repetitions.map(message => JSON.stringify(message))).size).toBe(1)
  expect(repetitions[0]).toMatchObject({ id: `${first?.id}.1`, repeated: 1 })
})

test('a receiver that hangs holds up no other, and one that refuses is logged without its key', async () => {
  const { redis, clock, worker, receivers, sentTo } = await setUpReceivers()
  const alerts = worker({}, 300)
  receivers.intercept = ({ url = '' }, response) => {
    if (url.startsWith('/services')) return true
    if (url.startsWith('/opsgenie')) response.writeHead(422).end(`The key ${OPSGENIE_KEY} is unknown`)
    return url.startsWith('/opsgenie')
  }
  await alerts.raise(REFUSED)
  await alerts.deliver()
  expect(receivers.open('pagerduty')).toHaveLength(1)
  const host = new URL(receivers.url).host
  const problems = alerts.lines.filter(({ level }) => level === 'error').map(({ msg }) => msg)
  expect(problems.sort()).toEqual([
    `Opsgenie at ${host} rejected the request (422). Check ALERT_OPSGENIE_KEY. Alerts are kept and sent later.`,
    `The Slack webhook at ${host} did not answer within 0.3 s. Check ALERT_SLACK_URL. Alerts are kept and sent later.`,
  ])
  receivers.intercept = () => false
  clock.pass(MINUTE)
  await alerts.deliver()
  expect([sentTo('slack').length, sentTo('pagerduty').length, sentTo('opsgenie').length]).toEqual([1, 1, 1])
  const seen = `${await scanAll(redis.url, redis.prefix)}${JSON.stringify(alerts.lines)}`
  expect(seen).toContain('key_refused')
  for (const secret of [PAGERDUTY_KEY, OPSGENIE_KEY, SLACK_PATH, 'slackS3cr3t'])
    expect(seen).not.toContain(secret)
})

test('an alert that an older version stored is not sent to the webhook again', async () => {
  const { redis, webhook, clock, worker } = await setUpAlerts()
  const alerts = worker()
  const stored = (name: string, told: string | null) =>
    JSON.stringify({
      ...{ id: `id-${name}`, name, company: 'acme', subject: 'acme', state: 'raised' },
      ...{ since: clock().toISOString(), at: clock().toISOString(), not_before: clock().toISOString() },
      ...{ message: 'Old.', details: {}, told, attempt: null },
    })
  await alerts.redis.hset(`${redis.prefix}:alerts`, {
    'key_refused:acme': stored('key_refused', 'raised'),
    'stale:acme': stored('stale', null),
  })
  await alerts.deliver()
  expect(received(webhook)).toEqual(['stale raised'])
  await alerts.clear(ACCEPTED)
  await alerts.deliver()
  expect(received(webhook)).toEqual(['stale raised', 'key_refused recovered'])
  expect(await openOutbox(alerts.redis, redis.prefix).all()).toMatchObject([{ name: 'stale' }])
})

const SECRET = 'h0tS3cr3t'

test.each([
  [
    { ALERT_PAGERDUTY_KEY: SECRET },
    /^ALERT_PAGERDUTY_KEY is not an integration key .* 32 letters and digits/,
  ],
  [{ ALERT_OPSGENIE_KEY: `${SECRET} x` }, /^ALERT_OPSGENIE_KEY contains white space/],
  [{ ALERT_SLACK_URL: SECRET }, /^ALERT_SLACK_URL=\(not shown\): must be an http or https address\.$/],
  [
    { ALERT_OPSGENIE_KEY: `${SECRET}@api.eu.opsgenie.com` },
    /^ALERT_OPSGENIE_KEY is neither a key nor an address with a key, as in https:\/\/KEY@api\.opsgenie\.com\.$/,
  ],
  [
    { ALERT_WARNINGS_TO: 'slack,sms' },
    /^ALERT_WARNINGS_TO=slack,sms: must be webhook, slack, pagerduty, opsgenie, /,
  ],
  [{ ALERT_REPEAT: '1s' }, /^ALERT_REPEAT=1s: must be 0 for never, or at least 1m\.$/],
  [{ ALERT_REPEAT: 'daily' }, /^ALERT_REPEAT=daily: must be a duration/],
])('a wrong setting of a receiver stops the worker with one sentence: %j', (environment, expected) => {
  expect(() => readDaemonSettings(environment)).toThrow(expected)
  expect(() => readDaemonSettings(environment)).not.toThrow(SECRET)
})

test('keys come from files, and an empty or missing file stops the worker', async () => {
  const directory = await temporaryDirectory()
  const file = async (name: string, text: string) => {
    await writeFile(join(directory, name), text)
    return join(directory, name)
  }
  const { alerts } = readDaemonSettings({
    ALERT_PAGERDUTY_KEY_FILE: await file('pagerduty', `${PAGERDUTY_KEY}\n`),
    ALERT_OPSGENIE_KEY_FILE: await file('opsgenie', `https://${OPSGENIE_KEY}@api.eu.opsgenie.com/\n`),
    ALERT_SLACK_URL_FILE: await file('slack', `https://hooks.slack.com${SLACK_PATH}\n`),
  })
  const severities = ['critical', 'warning']
  expect(alerts).toEqual({
    repeatMs: 12 * HOUR,
    routes: [
      { to: 'slack', webhookUrl: `https://hooks.slack.com${SLACK_PATH}`, severities },
      { to: 'pagerduty', baseUrl: 'https://events.pagerduty.com', apiKey: PAGERDUTY_KEY, severities },
      { to: 'opsgenie', baseUrl: 'https://api.eu.opsgenie.com', apiKey: OPSGENIE_KEY, severities },
    ],
  })
  const empty = await file('empty', '\n')
  expect(() => readDaemonSettings({ ALERT_OPSGENIE_KEY_FILE: empty })).toThrow(
    `ALERT_OPSGENIE_KEY_FILE (${empty}) is empty. Write the key of an API integration of Opsgenie into it`,
  )
  expect(() => readDaemonSettings({ ALERT_PAGERDUTY_KEY_FILE: join(directory, 'none') })).toThrow(
    /cannot be read: ENOENT/,
  )
})
