import { existsSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DURABLE_STEPS } from '#src/platform/durable.ts'
import { readStored } from '#test/simulation/stored.ts'
import { type CrashChain, startCrashChain } from '#test/support/crash_chain.ts'

/** First come to while there is something left to fetch. */
const IN_TIME: ReadonlySet<string> = new Set<(typeof DURABLE_STEPS)[number]>([
  ...([
    'directories.sync',
    'unsealed.remove',
    'rebuilt.remove',
    'rebuilt.rename',
    'rebuilt.directory',
  ] as const),
  ...(['segment.sync', 'segment.rename', 'segment.directory', 'applied.commit'] as const),
])

let chain: CrashChain
beforeAll(async () => {
  chain = await startCrashChain()
})
afterAll(() => chain.close())

test.each(DURABLE_STEPS.toReversed())(
  'stopped before %s, a run keeps and publishes what it has',
  async step => {
    const { code, reached, stderr } = await chain.runUntil({ step, when: 'before', signal: 'SIGTERM' })
    expect(reached).toBe(true)
    // Too late to stop anything, it ends as it would have.
    expect(code, stderr).toBe(IN_TIME.has(step) ? 130 : 0)
    expect(stderr).not.toMatch(/Unexpected|at .*\.ts/)
    // Not where it was stopped before it had made a warehouse.
    if (existsSync(chain.paths.warehouse)) await readStored(chain.paths)
  },
)

test('after a stop at every step, a run that nobody disturbs makes all as if there had been none', async () => {
  await chain.expectConverged()
})
