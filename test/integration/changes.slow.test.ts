import { expect, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { startCompany } from '#test/support/synced.ts'
import { expectTruth } from '#test/support/truth.ts'

const NOON = new Date('2026-11-20T12:00:00Z')

test('after many random changes the warehouse matches what the company has', async () => {
  const world = generateWorld({ seed: 'truth', company: 'acme', notices: 25, start: NOON })
  const company = await startCompany(world)
  const random = createRandom('changes 1')
  await company.syncHere()
  for (let hour = 1; hour <= 60; hour += 1) {
    tick(world, random, new Date(NOON.getTime() + hour * 3_600_000))
    if (hour % 20 > 0) continue
    // Only refetching finds silent changes.
    expect((await company.syncHere({ full: true })).loaded).toBe(world.size)
    await expectTruth(company)
  }
  const [deleted] = await company.query('SELECT count(*) AS n FROM editais WHERE deleted_at IS NOT NULL')
  expect(deleted?.n).toBe(world.removedIds().length)
  expect(deleted?.n).toBeGreaterThan(0)
})
