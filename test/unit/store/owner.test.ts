import { beforeEach, expect, test } from 'vitest'
import { type Ownership, takeOwnership } from '#src/extras/shared_log/owner.ts'
import { InterruptedError } from '#src/lib/errors.ts'
import { type ObjectStore, RemoteError } from '#src/lib/objects/objects.ts'

/** One object, the clock of everyone, and whether the store answers, or refuses each write. */
const NOTHING = {
  body: null,
  version: 0,
  writtenMs: 0,
  nowMs: 0,
  isDown: false,
  refuses: false,
  puts: 0,
  asked: 0,
}
const there = { ...NOTHING, body: null as Buffer | null }

beforeEach(() => {
  Object.assign(there, NOTHING)
})

const store = {
  root: 's3://bucket/logs',
  async get() {
    const { body: bytes, version, nowMs, writtenMs } = there
    return bytes && { bytes, tag: String(version), ageMs: nowMs - writtenMs, sha256: null }
  },
  async put(_, body, condition) {
    if (there.isDown) throw new RemoteError('The store did not answer.')
    there.asked += 1
    if (there.refuses) return null
    const tag = condition && 'tag' in condition ? condition.tag : null
    if (there.body === null ? tag !== null : tag !== String(there.version)) return null
    Object.assign(there, { body, version: there.version + 1, writtenMs: there.nowMs, puts: there.puts + 1 })
    return String(there.version)
  },
} as Pick<ObjectStore, 'root' | 'get' | 'put'> as ObjectStore

async function takenBy(directory: string, signal = new AbortController().signal): Promise<Ownership> {
  return await takeOwnership(store, {
    company: 'acme',
    holder: { directory, host: directory, pid: 1, what: 'sync' },
    now: () => new Date(there.nowMs),
    waitMs: 0,
    signal,
    onWait: () => {},
  })
}

test('an owner asks the store once after a long silence, not after a short one, and goes on if nobody took over', async () => {
  const first = await takenBy('first')
  there.nowMs += 29_000
  await first.confirm()
  expect(there.puts).toBe(1)
  there.nowMs += 3_600_000
  await Promise.all([first.confirm(), first.confirm()])
  expect(there.puts).toBe(2)
  await first.confirm()
  expect(there.puts).toBe(2)
  await first.release()
})

test('an owner that was taken over in its silence learns it before it goes on', async () => {
  const first = await takenBy('first')
  there.nowMs += 60_000
  const second = await takenBy('second')
  expect(second.isTakeover).toBe(true)
  first.assertHeld()
  await expect(first.confirm()).rejects.toThrow(
    'acme: another worker took over the raw log (s3://bucket/logs/acme/owner.json), because this one was silent for too long.',
  )
  expect(() => first.assertHeld()).toThrow('took over')
  await second.confirm()
  await first.release()
  await second.release()
})

test('an owner that was silent for long does not go on while the store does not answer', async () => {
  const first = await takenBy('first')
  there.nowMs += 45_000
  there.isDown = true
  await expect(first.confirm()).rejects.toThrow('The store did not answer.')
  there.isDown = false
  await first.confirm()
  await first.release()
})

test('a store that refuses each write is not asked for ever, whether it refuses the first owner or its beats', async () => {
  const message =
    'refused 10 times to replace s3://bucket/logs/acme/owner.json, which nobody else had replaced'
  there.refuses = true
  await expect(takenBy('first')).rejects.toThrow(message)
  expect(there.asked).toBe(10)
  there.refuses = false
  const first = await takenBy('first')
  there.refuses = true
  there.nowMs += 45_000
  there.asked = 0
  await expect(first.confirm()).rejects.toThrow(message)
  expect(there.asked).toBe(10)
  await first.release()
})

test('an interrupt ends that', async () => {
  there.refuses = true
  await expect(takenBy('first', AbortSignal.abort())).rejects.toThrow(InterruptedError)
  expect(there.asked).toBe(1)
})
