import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CHANGES, type FeedAnswer, follow, placed, shortly } from '#test/support/feed.ts'
import { anotherHost, LOG, startSharedLog } from '#test/support/hosts.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'

/** After so many runs, the log is long enough for a checkpoint. */
const RUNS = 11
const CHANGED = idOf(2)

const indexOf = (environment: Environment) => join(companyDirectory(environment), 'mirror/feed.sqlite')
const firstSegmentOf = (environment: Environment) =>
  join(companyDirectory(environment), 'raw/000001.ndjson.zst')

/** A company whose log hosts share, and a second host that was restored from a checkpoint: it lacks the log's beginning. */
async function startRestored() {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 3), settings)
  for (let run = 0; run < RUNS; run += 1) await first.syncHere()
  first.world.update(CHANGED, { edital: { objeto: 'Depois' } })
  await first.syncHere()
  const second = await anotherHost(first)
  expect((await runShared(['restore'], second.environment)).code).toBe(0)
  expect(existsSync(firstSegmentOf(second.environment))).toBe(false)
  const segmentsRead = () =>
    s3.requests.filter(({ method, key }) => method === 'GET' && key.startsWith(`${LOG}/`)).length
  return { s3, first, second, segmentsRead }
}

test('a host that was restored has the whole feed, and goes on with the cursors of others', async () => {
  const { first, second, segmentsRead } = await startRestored()
  const before = await serveApi(first.environment)
  const whole = await follow(before, null)
  const restored = await serveApi(second.environment)
  expect(placed((await follow(restored, null)).events)).toEqual(placed(whole.events))
  expect(await follow(restored, whole.next)).toEqual({ events: [], next: whole.next })

  const read = segmentsRead()
  second.world.update(CHANGED, { edital: { objeto: 'Mais tarde' } })
  await second.syncHere()
  const { events, next }: FeedAnswer = await restored.json(`${CHANGES}?since=${whole.next}&wait=20`)
  expect(shortly(events)[0]).toBe(`notice_changed ${CHANGED} objeto`)
  // What the index has is not read again.
  expect(segmentsRead()).toBe(read)

  // Then the log's beginning is on the disk, too, and the index is still of this log.
  expect((await runShared(['log', 'pull'], second.environment)).code).toBe(0)
  expect(existsSync(firstSegmentOf(second.environment))).toBe(true)
  await second.syncHere({ full: true })
  expect(await follow(restored, next)).toMatchObject({ events: [] })
  await restored.close()
  rmSync(indexOf(second.environment))
  const again = await serveApi(second.environment)
  expect(placed((await follow(again, null)).events)).toEqual(placed([...whole.events, ...events]))
})

test('while the store cannot be reached, the feed is refused with a reason; then it is whole', async () => {
  const { s3, first, second } = await startRestored()
  s3.fault = ({ method, key }) => (method === 'GET' && key.endsWith('000000003.ndjson.zst') ? 403 : null)
  const api = await serveApi(second.environment)
  expect((await api.ask(CHANGES)).status).toBe(503)
  expect((await api.ask('/api/v1/editais')).status).toBe(200)
  const reason = /The changes cannot be served: The object store at http:[^"]*Check the keys[^"]*/.exec(
    api.lines.join(''),
  )
  expect(reason?.[0]).toMatch(/[^.]\. The next request tries again\.$/)
  s3.fault = () => null
  await api.close()
  const whole = await follow(await serveApi(first.environment), null)
  const later = await serveApi(second.environment)
  expect(placed((await follow(later, null)).events)).toEqual(placed(whole.events))
})

test('without LOG_URL, or with another log there, a restored host shows no changes', async () => {
  const { s3, second } = await startRestored()
  const api = await serveApi(second.environment)
  const { next } = await follow(api, null)
  await api.close()

  const { LOG_URL: _, ...without } = second.environment
  const local = await serveApi(without)
  expect((await local.ask(CHANGES)).status).toBe(503)
  expect(local.lines.join('')).toMatch(
    /the first \d+ segments of the raw log are only in an object store, and LOG_URL does not name it/,
  )
  await local.close()

  for (const key of [...s3.objects.keys()].filter(name => name.startsWith(LOG))) s3.objects.delete(key)
  const empty = await serveApi(second.environment)
  expect((await empty.ask(`${CHANGES}?since=${next}`)).status).toBe(503)
  expect(empty.lines.join('')).toContain(
    'has lost segment 1. Restore it from a version or a backup of the bucket',
  )
})
