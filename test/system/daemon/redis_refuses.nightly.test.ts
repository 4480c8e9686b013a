import { test, vi } from 'vitest'
import { DAEMON_TEST } from '#test/support/daemon.ts'
import { canOwnRedis, startOwnRedis, withClient } from '#test/support/redis.ts'
import { type BadState, expectToSurvive } from '#test/support/redis_states.ts'

vi.setConfig(DAEMON_TEST)

const STATES: readonly BadState[] = [
  {
    name: 'a replica',
    sentence: /^Redis rejected the command \(READONLY\): it is a replica\. Set REDIS_URL to the master\./,
    spoil: ({ admin }) => admin(client => client.replicaof('127.0.0.1', 1)),
    cure: ({ admin }) => admin(client => client.replicaof('NO', 'ONE')),
  },
  {
    name: 'full',
    sentence: /^Redis rejected the command \(OOM\): its memory is full\. Raise maxmemory\./,
    spoil: ({ admin }) => admin(client => client.config('SET', 'maxmemory', '1')),
    cure: ({ admin }) => admin(client => client.config('SET', 'maxmemory', '0')),
  },
  {
    name: 'set to another password',
    sentence:
      /^Redis rejected the command \(WRONGPASS\): the password \(or the user in REDIS_URL\) is wrong\. Correct REDIS_PASSWORD_FILE/,
    spoil: ({ admin }) =>
      admin(async client => {
        await client.acl('SETUSER', 'worker', 'resetpass', '>another')
        await client.call('CLIENT', 'KILL', 'USER', 'worker')
      }),
    cure: ({ admin }) => admin(client => client.acl('SETUSER', 'worker', 'resetpass', '>pw_5d1c')),
  },
  {
    name: 'missing a permission for the user',
    sentence:
      /^Redis rejected the command \(NOPERM, XADD\): its user lacks permissions\. docs\/operating\/redis\.md lists/,
    spoil: ({ admin }) => admin(client => client.acl('SETUSER', 'worker', '-xadd')),
    cure: ({ admin }) => admin(client => client.acl('SETUSER', 'worker', '+xadd')),
  },
  {
    name: 'a node of a cluster',
    sentence:
      /^Redis rejected the command \(CROSSSLOT\): it is part of a cluster\. Set REDIS_URL to some of its nodes/,
    async spoil({ proxy }) {
      const { url } = await startOwnRedis({
        args: ['--cluster-enabled', 'yes'],
      })
      await withClient(url, async client => {
        await client.acl('SETUSER', 'worker', 'on', '>pw_5d1c', '~*', '&*', '+@all')
        await client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
      })
      await withClient(url, async client => {
        while (!String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) await client.ping()
      })
      proxy.leadTo(url)
    },
    cure: ({ proxy }) => proxy.mend(),
  },
]

for (const state of STATES) {
  test.skipIf(!canOwnRedis)(`a worker survives a Redis that is ${state.name}`, async () => {
    await expectToSurvive(state)
  })
}
