import { existsSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DURABLE_STEPS } from '#src/lib/durable.ts'
import { readStored } from '#test/simulation/stored.ts'
import { CHAINED_STEPS, type CrashChain, startCrashChain } from '#test/support/crash_chain.ts'

/** Steps first reached while there is still something to fetch. */
const IN_TIME: ReadonlySet<string> = new Set<(typeof DURABLE_STEPS)[number]>([
  'directories.sync',
  'unsealed.remove',
  'rebuilt.remove',
  'rows.rename',
  'rebuilt.rename',
  'rebuilt.directory',
])

let chain: CrashChain
beforeAll(async () => {
  chain = await startCrashChain()
})
afterAll(() => chain.close())

test.each(CHAINED_STEPS)('a run stopped before %s keeps and publishes what it has', async step => {
  const { code, reached, stderr } = await chain.runUntil({ step, when: 'before', signal: 'SIGTERM' })
  expect(reached).toBe(true)
  // Stopped too late, it ends normally.
  expect(code, stderr).toBe(IN_TIME.has(step) ? 130 : 0)
  expect(stderr).not.toMatch(/Unexpected|at .*\.ts/)
  // There is no warehouse if the run was stopped before it made one.
  if (existsSync(chain.paths.warehouse)) await readStored(chain.paths)
})

test('after a stop at every step, an undisturbed run ends as if there had been none', async () => {
  await chain.expectConverged()
})
