import { test, vi } from 'vitest'
import { DAEMON_TEST } from '#test/support/daemon.ts'
import { canOwnRedis } from '#test/support/redis.ts'
import {
  type BadState,
  expectToSurvive,
  makeAuthority,
  startTlsRedis,
  startWebServer,
} from '#test/support/redis_states.ts'

vi.setConfig(DAEMON_TEST)

const AWAY = /^Redis at 127\.0\.0\.1:\d+ does not answer \(\w+\)\. Start it, or set REDIS_URL\./
/** A worker waits for 10 s, a command for 5 s. */
const SILENT =
  /^Redis at 127\.0\.0\.1:\d+ does not answer \(nothing within (?:10|5) s\)\. Start it, or set REDIS_URL\./

const STATES: readonly BadState[] = [
  { name: 'down', sentence: AWAY, spoil: ({ proxy }) => proxy.cut(), cure: ({ proxy }) => proxy.mend() },
  {
    name: 'frozen',
    sentence: SILENT,
    spoil: ({ proxy }) => proxy.freeze(),
    cure: ({ proxy }) => proxy.mend(),
  },
  {
    name: 'a black hole that keeps dead connections open',
    sentence: SILENT,
    spoil: ({ proxy }) => proxy.swallow(),
    cure: ({ proxy }) => proxy.mend(),
  },
  {
    name: 'restarted empty',
    sentence: AWAY,
    async spoil({ redis, admin }) {
      await admin(client => client.flushall())
      await redis.stop()
    },
    cure: ({ redis }) => redis.start(),
  },
  {
    name: 'using a certificate of an unknown authority',
    tls: true,
    sentence:
      /^The certificate of Redis at 127\.0\.0\.1:\d+ is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\)\. Set REDIS_CA_FILE to a file with the certificate of the authority that signed it/,
    spoil: async ({ proxy }) => proxy.leadTo((await startTlsRedis(await makeAuthority())).url),
    cure: ({ proxy }) => proxy.mend(),
  },
  {
    name: 'not Redis at all',
    sentence:
      /^The server at 127\.0\.0\.1:\d+ is not Redis \(Unknown RESP type 72\)\. Set REDIS_URL to the address of Redis/,
    spoil: async ({ proxy }) => proxy.leadTo(await startWebServer()),
    cure: ({ proxy }) => proxy.mend(),
  },
]

for (const state of STATES) {
  test.skipIf(!canOwnRedis)(`a worker survives a Redis that is ${state.name}`, async () => {
    await expectToSurvive(state)
  })
}
