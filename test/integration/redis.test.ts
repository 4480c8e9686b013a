import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Redis } from 'ioredis'
import { expect, inject, onTestFinished, test } from 'vitest'
import { surroundings, temporaryDirectory } from '#test/support/project.ts'
import {
  canOwnRedis,
  openRedis,
  scanAll,
  startOwnRedis,
  startProxy,
  withClient,
} from '#test/support/redis.ts'
import { freePort } from '#tools/redis_process.ts'

const ROOT = join(import.meta.dirname, '../..')
const REDIS_PROCESS = import.meta.resolve('#tools/redis_process.ts')

test("the tests' Redis has the settings that the daemon needs", async () => {
  const { url } = await openRedis()
  await withClient(url, async client => {
    expect(await client.config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'noeviction'])
    expect(await client.config('GET', 'appendonly')).toEqual(['appendonly', 'yes'])
  })
})

test('a scan shows the keys and values of every type, and no other prefix', async () => {
  const { url, prefix } = await openRedis()
  const other = await openRedis()
  await withClient(url, async client => {
    await client.set(`${other.prefix}:string`, 'of-another')
    await client.set(`${prefix}:string`, 'in-string')
    await client.hset(`${prefix}:hash`, 'field-name', 'in-hash')
    await client.rpush(`${prefix}:list`, 'in-list')
    await client.sadd(`${prefix}:set`, 'in-set')
    await client.zadd(`${prefix}:zset`, 7, 'in-zset')
    await client.xadd(`${prefix}:stream`, '1-1', 'stream-field', 'in-stream')
  })
  expect((await scanAll(url, prefix)).split('\n')).toEqual([
    `${prefix}:hash hash ["field-name","in-hash"]`,
    `${prefix}:list list "in-list"`,
    `${prefix}:set set "in-set"`,
    `${prefix}:stream stream ["1-1",["stream-field","in-stream"]]`,
    `${prefix}:string string "in-string"`,
    `${prefix}:zset zset ["in-zset","7"]`,
  ])
})

let leftBehind = { url: '', prefix: '' }

test('a test leaves keys', async () => {
  leftBehind = await openRedis()
  await withClient(leftBehind.url, client => client.set(`${leftBehind.prefix}:key`, 'value'))
  expect(await scanAll(leftBehind.url, leftBehind.prefix)).toContain('value')
})

test('… which are gone after the test', async ({ skip }) => {
  if (leftBehind.url === '') skip('needs Redis')
  expect(await scanAll(leftBehind.url, leftBehind.prefix)).toBe('')
})

test.skipIf(!canOwnRedis)('a separate Redis restarts with its data, on the same port', async () => {
  const redis = await startOwnRedis()
  await withClient(redis.url, client => client.set('key', 'kept'))
  await redis.stop()
  await expect(ping(redis.url)).rejects.toThrow()
  await redis.start()
  expect(await withClient(redis.url, client => client.get('key'))).toBe('kept')
  await redis.kill()
  await expect(ping(redis.url)).rejects.toThrow()
  await redis.start()
  expect(await withClient(redis.url, client => client.get('key'))).toBe('kept')
})

test.skipIf(!canOwnRedis)(
  'a Redis of the tests does not outlive them, not even if they are killed',
  async () => {
    const options = {
      binary: inject('redisBinary'),
      port: await freePort(),
      directory: await temporaryDirectory(),
    }
    const tests = spawn(
      process.execPath,
      [
        ...['--input-type=module', '--eval'],
        `const { startRedisProcess } = await import(${JSON.stringify(REDIS_PROCESS)})
       await startRedisProcess(${JSON.stringify(options)})
       console.log('started')`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    onTestFinished(() => void tests.kill('SIGKILL'))
    await once(tests.stdout, 'data')
    const url = `redis://127.0.0.1:${options.port}`
    expect(await ping(url)).toBe('PONG')
    tests.kill('SIGKILL')
    await expect.poll(() => ping(url).catch(() => 'gone'), { timeout: 10_000 }).toBe('gone')
  },
)

test('a cut proxy drops its connections and refuses new ones until it is mended', async () => {
  const { url } = await openRedis()
  const proxy = await startProxy(url)
  const client = new Redis(proxy.url, { retryStrategy: () => 10 })
  onTestFinished(() => client.disconnect())
  client.on('error', () => {})
  expect(await client.ping()).toBe('PONG')
  const dropped = new Promise(resolve => client.once('close', resolve))
  await proxy.cut()
  await dropped
  await expect(ping(proxy.url)).rejects.toThrow()
  await proxy.mend()
  expect(await client.ping()).toBe('PONG')
})

test('an unusable REDIS_URL ends the tests with one plain sentence', async () => {
  const tests = spawn(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', import.meta.filename], {
    cwd: ROOT,
    env: { ...surroundings(), REDIS_URL: 'redis://user:pw_5d1c@127.0.0.1:1' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  onTestFinished(() => void tests.kill('SIGKILL'))
  const [stderr, [code]] = await Promise.all([text(tests.stderr), once(tests, 'exit')])
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr:
      'The Redis at REDIS_URL (redis://127.0.0.1:1) does not answer: ECONNREFUSED. Start it, or unset REDIS_URL: the tests then start their own.\n',
  })
})

/** One attempt, without the retries of a client that stays connected. */
async function ping(url: string): Promise<string> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: null })
  client.on('error', () => {})
  try {
    await client.connect()
    return await client.ping()
  } finally {
    client.disconnect()
  }
}
