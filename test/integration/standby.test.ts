import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { expect, onTestFinished, test } from 'vitest'
import { createStandby } from '#jobs/queues/standby.ts'
import { createLogger } from '#src/lib/log.ts'
import { startSharedLog } from '#test/support/hosts.ts'
import { serveWorker } from '#test/support/http.ts'
import type { S3Request } from '#tools/s3_server.ts'

const CANNOT = 'This worker cannot use the object store of LOG_URL, so it could not take over a company: '
const HOUR_MS = 3600_000

/** A worker that waits for its turn: it never ran a company. */
async function startStandby() {
  const { s3, settings } = await startSharedLog()
  const { registry, queues } = await serveWorker({ settings })
  const lines: string[] = []
  const log = createLogger('info', {}, { write: line => void lines.push(JSON.parse(line).msg) })
  const stopping = new AbortController()
  onTestFinished(() => stopping.abort())
  const standby = createStandby({ registry, queues, log, signal: stopping.signal })
  return { s3, settings, standby, lines }
}

test('a worker that is not needed yet finds that it could take over, with three requests for all companies, and changes nothing', async () => {
  const { s3, standby, lines } = await startStandby()
  expect(standby.stores).toBeNull()
  await standby.look()
  await standby.look()
  expect([standby.stores, standby.clocks, lines, s3.objects.size]).toEqual([[], [], [], 0])
  expect(s3.requests.map(({ method }) => method).sort()).toEqual(['GET', 'GET', 'PUT'])
})

test.each<[what: string, fault: (request: S3Request) => number | null, why: string]>([
  [
    'a key that may only read',
    ({ method }) => (method === 'PUT' ? 403 : null),
    'did not write s3://lake/shared/acme/owner.json.probe: Injected. Check the keys, and their rights',
  ],
  [
    'a key that is refused',
    () => 403,
    'did not read s3://lake/shared/acme/owner.json: Injected. Check the keys',
  ],
  [
    'a key that may not list',
    ({ method, key }) => (method === 'GET' && key === '' ? 403 : null),
    'did not list s3://lake/shared/acme/log/: Injected. Check the keys',
  ],
])('%s is named before the worker is needed, once, and so is its end', async (_, fault, why) => {
  const { s3, standby, lines } = await startStandby()
  s3.fault = fault
  await standby.look()
  await standby.look()
  expect(standby.stores).toEqual([expect.stringContaining(CANNOT)])
  expect(standby.stores?.[0]).toContain(why)
  expect(lines).toEqual(standby.stores)
  s3.fault = () => null
  await standby.look()
  expect([standby.stores, lines.slice(1)]).toEqual([[], ['The object store of LOG_URL can be used again.']])
})

test('a key file that cannot be used is named, too', async () => {
  const { settings, standby } = await startStandby()
  const path = settings.S3_CREDENTIALS_FILE as string
  const commanded = `${path}.commanded`
  for (const keys of [
    '',
    'x',
    '[other]\naws_access_key_id = x',
    `[default]\ncredential_process = touch ${commanded}`,
  ]) {
    await writeFile(path, keys)
    await standby.look()
    const why = `S3_CREDENTIALS_FILE (${path}) must have a line [default], then aws_access_key_id = `
    expect(standby.stores).toEqual([expect.stringContaining(`${CANNOT}${why}`)])
  }
  expect(existsSync(commanded)).toBe(false)
})

test("a clock that differs from the store's is named, with the difference", async () => {
  const { s3, standby, lines } = await startStandby()
  s3.clockToleranceMs = 365 * 24 * HOUR_MS
  s3.now = () => new Date(Date.now() + 53 * HOUR_MS)
  await standby.look()
  expect(standby.clocks).toEqual([
    `The clock of ${hostname()} is 2 days 5 h behind that of the object store: runs start at wrong times, and ages are wrong. Correct the one that is wrong, and keep all of them right with NTP. No data is lost.`,
  ])
  expect(lines).toEqual(standby.clocks)
})
