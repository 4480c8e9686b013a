import { expect, it } from 'vitest'
import { readRedisSettings } from '#config/daemon.ts'

const read = (environment: Record<string, string>) =>
  readRedisSettings({ REDIS_URL: 'redis://redis', ...environment })

it('the keys of a cluster have a hash tag, and other keys stay as they are', () => {
  expect(read({ REDIS_PREFIX: 'one' })).toMatchObject({ prefix: 'one', cluster: null })
  expect(read({ REDIS_PREFIX: 'one', REDIS_SENTINELS: 'a' })).toMatchObject({ prefix: 'one', cluster: null })
  expect(read({ REDIS_PREFIX: 'one', REDIS_CLUSTER: 'a:7000, [::1]:7001,c' })).toMatchObject({
    prefix: '{one}',
    cluster: [
      { host: 'a', port: 7000 },
      { host: '::1', port: 7001 },
      { host: 'c', port: 6379 },
    ],
  })
})

it('what a cluster cannot have is refused', () => {
  const both =
    'REDIS_CLUSTER and REDIS_SENTINELS are both set. A cluster needs no sentinels: unset one of them.'
  expect(() => read({ REDIS_CLUSTER: 'a', REDIS_SENTINELS: 'b' })).toThrow(both)
  expect(() => read({ REDIS_CLUSTER: 'a', REDIS_URL: 'redis://redis/1' })).toThrow(
    'REDIS_CLUSTER is set, and REDIS_URL ends with /1. A cluster has only database 0: remove /1, and use REDIS_PREFIX to share it.',
  )
  expect(read({ REDIS_CLUSTER: 'a', REDIS_URL: 'redis://redis/0' }).cluster).toHaveLength(1)
  for (const text of ['a b', 'a,,b', 'redis://a', 'a:70000', ',']) {
    expect(() => read({ REDIS_CLUSTER: text }), text).toThrow(
      'must be addresses such as 10.0.0.1:6379, separated by commas',
    )
  }
})
