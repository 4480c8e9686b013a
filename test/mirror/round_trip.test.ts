import { test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { expectRoundTrip } from '../support/round_trip.ts'
import { startCompany } from '../support/synced.ts'

/** Of how many notices; ROUND_TRIP=5000 asks more of it. Real ones: `test/real_notices.test.ts`. */
const NOTICES = Number(process.env.ROUND_TRIP ?? 300)

test('what was synced of a made-up world comes out as it went in, and a second worker has the same tables', async () => {
  const world = generateWorld({ seed: 7, company: 'acme', notices: NOTICES, start: new Date() })
  const company = await startCompany(world)
  await company.syncHere()
  await expectRoundTrip(company)
}, 600_000)
