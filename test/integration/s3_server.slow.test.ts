import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { RemoteLakeSettings } from '#config/lake.ts'
import { hashContent } from '#src/lib/hash.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { CONFORMANCE } from '#test/support/s3_conformance.ts'
import { BUCKET, startS3, writeCredentials } from '#tools/s3_server.ts'

async function opened() {
  const s3 = await startS3()
  onTestFinished(() => s3.close())
  const directory = await temporaryDirectory()
  const settings: RemoteLakeSettings = {
    bucket: BUCKET,
    prefix: 'some/place',
    region: 'us-east-1',
    endpoint: s3.url,
    formats: ['iceberg'],
    catalog: null,
    keepMs: 0,
    intervalMs: 0,
    retryMs: 100,
    credentialsFile: await writeCredentials(join(directory, 'credentials'), 'test'),
  }
  const store = await openS3(settings)
  onTestFinished(() => store.close())
  return { s3, store, directory }
}

test.each(CONFORMANCE)('the S3 server of the tests: $title', async ({ check }) => {
  const { store, directory } = await opened()
  await check(store, directory)
})

test('a client that leaves in the middle of its upload leaves nothing, and the server goes on', async () => {
  const { s3, store } = await opened()
  const socket = connect(Number(new URL(s3.url).port), '127.0.0.1')
  socket.write(`PUT /${BUCKET}/some/place/left HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf`)
  await new Promise(resolve => setTimeout(resolve, 50))
  socket.destroy()
  expect(await store.head('left')).toBe(null)
  expect(s3.objects.size).toBe(0)
})

test('a body whose hash is another one is refused', async () => {
  const { store, directory } = await opened()
  const path = join(directory, 'file')
  await writeFile(path, 'abc')
  await expect(store.upload('file', { path, bytes: 3, sha256: '0'.repeat(64) })).rejects.toThrow(
    'XAmzContentSHA256Mismatch',
  )
})

test('an upload whose refusal is lost with its connection finds that the object is there', async () => {
  const { s3, store, directory } = await opened()
  const path = join(directory, 'file')
  await writeFile(path, 'abc')
  const file = { path, bytes: 3, sha256: hashContent('abc') }
  expect(await store.upload('file', file)).toBe(true)
  s3.fault = ({ method }) => (method === 'PUT' ? 'lose' : null)
  expect(await store.upload('file', file)).toBe(false)
  s3.fault = ({ method }) => (method === 'PUT' ? 'drop' : null)
  await expect(store.upload('other', file)).rejects.toThrow(/did not write s3:\S+\/other: /)
})

test.each([2, -2])(
  'a host whose clock is wrong by %i days reads and writes, as the store refuses it once',
  async days => {
    const { s3, store, directory } = await opened()
    s3.now = () => new Date(Date.now() - days * 86_400_000)
    s3.clockToleranceMs = 900_000
    const path = join(directory, 'file')
    await writeFile(path, 'abc')
    expect(await store.upload('file', { path, bytes: 3, sha256: hashContent('abc') })).toBe(true)
    expect((await store.get('file', 1000))?.bytes.toString()).toBe('abc')
    expect((await store.get('file', 1000))?.ageMs).toBeLessThan(60_000)
    expect(s3.requests.length).toBe(4)
  },
)

test('a store that refuses the clock for ever is named', async () => {
  const { s3, store } = await opened()
  s3.clockToleranceMs = -1
  await expect(store.get('file', 1000)).rejects.toThrow(
    "this machine's clock is not the store's: correct the clock.",
  )
})
