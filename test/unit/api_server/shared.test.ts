import { expect, test } from 'vitest'
import { shareCalls } from '#src/lib/concurrency.ts'

test('callers that ask before the work starts share one answer, later callers get a new one', async () => {
  const begun: PromiseWithResolvers<number>[] = []
  const ask = shareCalls(() => {
    const one = Promise.withResolvers<number>()
    begun.push(one)
    return one.promise
  })
  const first = [ask(), ask(), ask()]
  await new Promise(setImmediate)
  await new Promise(setImmediate)
  expect(begun).toHaveLength(1)
  const later = [ask(), ask()]
  await new Promise(setImmediate)
  // The second starts only after the first has ended.
  expect(begun).toHaveLength(1)
  begun[0]?.resolve(1)
  expect(await Promise.all(first)).toEqual([1, 1, 1])
  await new Promise(setImmediate)
  await new Promise(setImmediate)
  begun[1]?.reject(new Error('broken'))
  expect((await Promise.allSettled(later)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  // A failure does not block the next call.
  const last = ask()
  await new Promise(setImmediate)
  await new Promise(setImmediate)
  begun[2]?.resolve(3)
  expect(await last).toBe(3)
})
