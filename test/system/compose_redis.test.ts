import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { expect, inject, onTestFinished, test } from 'vitest'
import { startDaemon, until } from '#test/support/daemon.ts'
import { readCompose } from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { canOwnRedis } from '#test/support/redis.ts'
import { freePort } from '#tools/redis_process.ts'

const run = promisify(execFile)
const { services } = await readCompose()

/** Does what the service `redis-password` does, with a directory in place of its volume. */
async function makePassword(directory: string, umask = '022') {
  const { entrypoint = [], command = [] } = services['redis-password']
  const [shell = '', ...args] = [...entrypoint, ...command].map(word =>
    word.replaceAll('/run/redis', directory),
  )
  const output = await run('/bin/sh', ['-c', `umask ${umask}; exec "$@"`, 'sh', shell, ...args])
  return { output, password: await readFile(join(directory, 'password'), 'utf8') }
}

test('the Redis password is created once, at random, and readable for the users of both images', async () => {
  const directory = await temporaryDirectory()
  const { output, password } = await makePassword(directory)
  expect(output).toEqual({ stdout: '', stderr: '' })
  expect(password).toMatch(/^[0-9a-f]{64}$/)
  // The image's entrypoint would set this umask.
  expect((await makePassword(directory, '077')).password).toBe(password)
  for (const name of ['password', 'redis.conf']) {
    expect((await stat(join(directory, name))).mode & 0o777).toBe(0o444)
  }
  expect(await readFile(join(directory, 'redis.conf'), 'utf8')).toBe(`requirepass ${password}`)
  expect((await makePassword(await temporaryDirectory())).password).not.toBe(password)
  // Truncated by a full disk or a crash: an empty password would accept every client.
  await chmod(join(directory, 'password'), 0o644)
  await writeFile(join(directory, 'password'), '')
  expect((await makePassword(directory)).password).toMatch(/^[0-9a-f]{64}$/)
})

test.skipIf(!canOwnRedis)(
  'Redis as Compose starts it accepts only the password of that file, and its health check uses it',
  async () => {
    const directory = await temporaryDirectory()
    const { password } = await makePassword(directory)
    const port = String(await freePort())
    const [, ...args] = (services.redis.command ?? []).map(word => word.replaceAll('/run/redis', directory))
    const place = ['--port', port, '--bind', '127.0.0.1', '--dir', await temporaryDirectory()]
    const redis = spawn(inject('redisBinary') ?? '', [...args, ...place], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [redis.stdout, redis.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    onTestFinished(async () => {
      if (redis.exitCode !== null) return
      redis.kill('SIGKILL')
      await once(redis, 'exit')
    })

    const [kind, ...words] = services.redis.healthcheck?.test ?? []
    expect(kind).toBe('CMD-SHELL')
    const isHealthy = async (below: string) => {
      const [check = ''] = words.map(word =>
        word.replaceAll('/run/redis', below).replace('redis-cli ', `redis-cli -p ${port} `),
      )
      return await run('/bin/sh', ['-c', check]).then(
        () => true,
        () => false,
      )
    }
    await until(() => isHealthy(directory), { what: `a healthy Redis; output: ${output}` })
    const another = await temporaryDirectory()
    await makePassword(another)
    expect(await isHealthy(another)).toBe(false)

    const stranger = new Redis(Number(port), { retryStrategy: null, lazyConnect: true })
    stranger.on('error', () => {})
    onTestFinished(() => stranger.disconnect())
    await expect(stranger.connect().then(() => stranger.ping())).rejects.toThrow()

    const { environment = {} } = services.worker
    const worker = await startDaemon({
      DATA_DIR: await temporaryDirectory(),
      COMPANIES_FILE: join(directory, 'companies.yaml'),
      REDIS_URL: (environment.REDIS_URL ?? '').replace('redis:6379', `127.0.0.1:${port}`),
      REDIS_PASSWORD_FILE: (environment.REDIS_PASSWORD_FILE ?? '').replace('/run/redis', directory),
    })
    await until(async () => /"redis":\{"ok":true\}/.test(await (await worker.ask('/readyz')).text()), {
      what: 'a Redis that accepts the worker',
    })
    const shown = await Promise.all(
      ['cmdline', 'environ'].map(name => readFile(`/proc/${redis.pid}/${name}`, 'utf8')),
    )
    expect([...shown, output].filter(text => text.includes(password))).toEqual([])
  },
)
