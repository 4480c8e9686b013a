import { expect, test } from 'vitest'
import type { Trouble } from '#src/extras/metabase/client.ts'
import { FatalError } from '#src/lib/errors.ts'
import { clientOf } from '#test/support/metabase/session.ts'
import { type StandIn, startMetabase } from '#test/support/metabase/stand_in.ts'

test.each<[Trouble, RegExp, (metabase: StandIn) => void | Promise<void>]>([
  [
    'unreachable',
    /^Metabase does not answer at http:\S+ \(ECONNREFUSED\)\. Start it/,
    metabase => metabase.stop(),
  ],
  ['slow', /did not answer within 0\.3 s/, metabase => answer(metabase, () => {})],
  [
    'slow',
    /did not answer within 0\.3 s/,
    metabase => answer(metabase, response => response.writeHead(200).write('{')),
  ],
  ['starting', /not ready \(503\)/, metabase => answer(metabase, status(503))],
  [
    'failed',
    /failed at GET .* \(500\): bad \*\*\*\. Check its log/,
    metabase => answer(metabase, status(500)),
  ],
  ['forbidden', /does not allow GET .* \(403\)/, metabase => answer(metabase, status(403))],
  ['rejected', /rejects GET .* \(400\): bad \*\*\*\./, metabase => answer(metabase, status(400))],
  [
    'redirected',
    /redirects \(302\) to https:\/\/other\.example\./,
    metabase => answer(metabase, status(302)),
  ],
  [
    'failed',
    /does not answer as Metabase does \(expected JSON\)/,
    metabase => answer(metabase, response => response.end('<html>')),
  ],
])('a Metabase that is %s has its own message: %s', async (trouble, message, breakIt) => {
  const metabase = await startMetabase()
  const key = 'mb_3f9c1d7a5b'
  const client = clientOf(metabase.url, key, 300)
  await breakIt(metabase)
  const error = await client.get('/api/user/current').then(
    () => null,
    (error: Error) => error,
  )
  expect(error).toBeInstanceOf(FatalError)
  expect(error).toMatchObject({ trouble, message: expect.stringMatching(message) })
  expect(error?.message).not.toContain(key)
})

type Answer = Parameters<StandIn['intercept']>[1]

function answer(metabase: StandIn, how: (response: Answer) => unknown): void {
  metabase.intercept = (_, response) => {
    how(response)
    return true
  }
}

/** Repeats the key, as a server may. */
function status(code: number): (response: Answer) => unknown {
  return response =>
    response
      .writeHead(code, { location: 'https://other.example/?key=mb_3f9c1d7a5b' })
      .end(JSON.stringify({ message: 'bad mb_3f9c1d7a5b' }))
}
