import { Readable } from 'node:stream'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { limitBody, Patience } from '#src/lib/objects/patience.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const never = () => new Promise<never>(() => {})
/** What the promise became until now. */
async function outcome(promise: Promise<unknown>): Promise<string> {
  const pending = new Promise<string>(resolve => setImmediate(resolve, 'pending'))
  return await Promise.race([promise.then(String, error => `${error.name}: ${error.message}`), pending])
}

test('a request that sends nothing ends after a minute, one that is fast enough goes on', async () => {
  const patience = new Patience({})
  const silent = patience.attempt(null, never)
  const fast = patience.attempt(null, async ({ moved }) => {
    const timer = setInterval(() => moved(100_000), 1000)
    await never().finally(() => clearInterval(timer))
  })
  const slow = patience.attempt(null, async ({ moved }) => {
    setInterval(() => moved(1000), 1000)
    await never()
  })
  for (const one of [silent, fast, slow]) one.catch(() => {})
  await vi.advanceTimersByTimeAsync(59_000)
  expect(await outcome(silent)).toBe('pending')
  await vi.advanceTimersByTimeAsync(3000)
  expect(await outcome(silent)).toMatch(/^TimeoutError: it took longer than 60 s/)
  expect(await outcome(slow)).toMatch(/^TimeoutError/)
  await vi.advanceTimersByTimeAsync(600_000)
  expect(await outcome(fast)).toBe('pending')
})

test('what is written may take the time for its bytes', async () => {
  const patience = new Patience({})
  const upload = patience.attempt(64_000_000, never)
  upload.catch(() => {})
  await vi.advanceTimersByTimeAsync(1_000_000)
  expect(await outcome(upload)).toBe('pending')
  await vi.advanceTimersByTimeAsync(70_000)
  expect(await outcome(upload)).toMatch(/^TimeoutError/)
})

test('when the process is to end, requests end at once, or after a grace that writing prolongs', async () => {
  const stop = new AbortController()
  const hasty = new Patience({ signal: stop.signal })
  const gracious = new Patience({ signal: stop.signal, graceMs: 2000 })
  const hung = hasty.attempt(null, never)
  const reading = gracious.attempt(null, async ({ moved }) => {
    setInterval(() => moved(1_000_000), 500)
    await never()
  })
  for (const one of [hung, reading]) one.catch(() => {})
  stop.abort()
  expect(await outcome(hung)).toBe('FatalError: Interrupted.')
  await expect(hasty.attempt(null, never)).rejects.toThrow('Interrupted.')
  await vi.advanceTimersByTimeAsync(1500)
  // A seal that goes on.
  expect(await gracious.attempt(10, async () => 'sealed')).toBe('sealed')
  await vi.advanceTimersByTimeAsync(1500)
  expect(await outcome(reading)).toBe('pending')
  await vi.advanceTimersByTimeAsync(1000)
  expect(await outcome(reading)).toBe('FatalError: Interrupted.')
  await expect(gracious.attempt(10, never)).rejects.toThrow('Interrupted.')
})

test('with a limit of silence, a store that is slow goes on, and one that answers and takes nothing is given up', async () => {
  const patience = new Patience({ silenceMs: 4000 })
  const slow = patience.attempt(10, async ({ moved }) => {
    const timer = setInterval(() => moved(1), 3000)
    await never().finally(() => clearInterval(timer))
  })
  const hung = patience.attempt(null, never)
  for (const one of [slow, hung]) one.catch(() => {})
  await vi.advanceTimersByTimeAsync(40_000)
  expect([await outcome(slow), await outcome(hung)]).toEqual(['pending', 'pending'])
  const silent = new Patience({ silenceMs: 4000 })
  const all = [silent.attempt(10, never), silent.attempt(null, never)]
  for (const one of all) one.catch(() => {})
  await vi.advanceTimersByTimeAsync(3900)
  expect(await outcome(all[0] as Promise<never>)).toBe('pending')
  await vi.advanceTimersByTimeAsync(300)
  for (const one of all)
    expect(await outcome(one)).toMatch(/^FatalError: The object store did not answer for 4 s\./)
})

test('what is still under way is given up when the store is closed', async () => {
  const patience = new Patience({})
  const beat = patience.attempt(10, never)
  beat.catch(() => {})
  patience.close()
  expect(await outcome(beat)).toBe('FatalError: Interrupted.')
  expect(vi.getTimerCount()).toBe(0)
})

test('a body is cut at the bound, and its source is closed', async () => {
  const source = Readable.from(
    (async function* () {
      for (;;) yield Buffer.alloc(1000)
    })(),
  )
  const attempt = { signal: new AbortController().signal, moved: () => {} }
  const body = limitBody(source, attempt, 10_500, () => new Error('too many'))
  let bytes = 0
  const read = (async () => {
    for await (const chunk of body) bytes += (chunk as Buffer).length
  })()
  await expect(read).rejects.toThrow('too many')
  expect(bytes).toBeLessThanOrEqual(10_500)
  if (!source.closed) await new Promise(resolve => source.once('close', resolve))
  expect(source.destroyed).toBe(true)
})
