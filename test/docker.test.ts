import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { DCLinter } from 'dclint'
import { validate } from 'dockerfile-utils'
import { describe, expect, test } from 'vitest'
import { DAEMON_SETTINGS, readDaemonSettings, readSchedule } from '#config/daemon.ts'
import { COMPANY_SETTINGS, readApiSettings, readSettings, SCHEDULE_SETTINGS } from '#config/settings.ts'
import { sandboxKey } from '#src/sandbox/keys.ts'
import {
  COMPOSE_FILE,
  DOCKERFILE,
  type Instruction,
  METABASE_DOCKERFILE,
  PROJECT,
  readBuildContext,
  readCompose,
  readDockerfile,
  type Service,
  VARIABLE,
} from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const { services, volumes } = await readCompose()
const everyService = Object.entries(services)
const ours = everyService.filter(([, service]) => service.build?.context === '.')
const workers = [services.worker, services['demo-worker']]
const image = (await readDockerfile()).at(-1)?.instructions ?? []
const metabaseImage = (await readDockerfile(METABASE_DOCKERFILE)).at(-1)?.instructions ?? []
/** Is done when it has made the password; all else runs. */
const running = everyService.filter(([name]) => name !== 'redis-password')

describe('docker-compose.yml', () => {
  test('follows the published schema of Compose', () => {
    expect(problemsOf(COMPOSE_FILE)).toEqual([])
  })

  test('… which finds a misspelt word', async () => {
    const path = join(await temporaryDirectory(), 'docker-compose.yml')
    const text = await readFile(COMPOSE_FILE, 'utf8')
    await writeFile(path, text.replace('stop_grace_period', 'stop_grace_time'))
    expect(problemsOf(path)).toEqual([expect.stringContaining('additional properties')])
  })

  test('Redis keeps its jobs: it evicts nothing, and its append-only file is on a volume', () => {
    const { command = [], volumes: mounts } = services.redis
    const [program, configuration, ...options] = command
    expect([program, configuration]).toEqual(['redis-server', '/run/redis/redis.conf'])
    const settings = Object.fromEntries(pairs(options))
    expect(settings).toMatchObject({
      '--appendonly': 'yes',
      '--appendfsync': 'everysec',
      '--maxmemory-policy': 'noeviction',
    })
    expect(mounts).toEqual(['redis:/data', 'redis-password:/run/redis:ro'])
  })

  test('every service is watched: by a check of its own or by the one of the image', () => {
    const own = everyService.filter(([, { healthcheck }]) => healthcheck).map(([name]) => name)
    expect(own).toEqual(['redis', 'sandbox'])
    expect(only(image, 'HEALTHCHECK').words).toEqual(['node', 'jobs/healthcheck.ts'])
    for (const worker of workers) expect(worker.depends_on?.redis?.condition).toBe('service_healthy')
    expect(services['demo-worker'].depends_on?.sandbox?.condition).toBe('service_healthy')
  })

  test('the data is at the same path everywhere, and each worker has a volume of its own', () => {
    const dataDir = environmentOfImage().DATA_DIR
    expect(workers.map(({ environment }) => environment?.DATA_DIR)).toEqual([dataDir, dataDir])
    expect(workers.map(({ volumes = [] }) => volumes.find(mount => mount.endsWith(`:${dataDir}`)))).toEqual([
      `data:${dataDir}`,
      `demo-data:${dataDir}`,
    ])
    expect(Object.keys(volumes)).toEqual(['redis', 'redis-password', 'data', 'demo-data', 'metabase'])
    expect(services.metabase.volumes).toEqual([`data:${dataDir}:ro`, 'metabase:/metabase'])
  })

  test('no service has rights that it does not need', () => {
    for (const [name, service] of everyService) {
      expect.soft(service.read_only, name).toBe(true)
      expect.soft(service.cap_drop, name).toEqual(['ALL'])
      expect.soft(service.security_opt, name).toEqual(['no-new-privileges:true'])
    }
    expect(services.redis.user).toBe('redis')
    for (const [name, service] of ours) {
      expect.soft(service.user, `${name} runs as the image says`).toBeUndefined()
      expect.soft(service.tmpfs?.[0], `${name} has a /tmp`).toMatch(/^\/tmp\b/)
    }
  })

  test('Metabase writes in /tmp and its database alone: there it finds our driver, and may load what it unpacks', async () => {
    const [tmpfs = ''] = services.metabase.tmpfs ?? []
    expect(tmpfs).toMatch(/^\/tmp:(?:.*,)?exec\b.*\bsize=/)
    expect(services.metabase.volumes?.filter(mount => !mount.endsWith(':ro'))).toEqual(['metabase:/metabase'])
    const { MB_PLUGINS_DIR: plugins = '', MB_DB_FILE: database = '' } = environmentOf(metabaseImage)
    expect([plugins, database]).toEqual(['/tmp/plugins', '/metabase/metabase.db'])
    // Started twice, as after a crash: /tmp of a container outlives its process.
    const root = await temporaryDirectory()
    const drivers = join(root, 'drivers')
    await mkdir(drivers)
    await writeFile(join(drivers, 'duckdb.metabase-driver.jar'), '')
    await writeFile(join(root, 'java'), '#!/bin/sh\necho "$@"\n', { mode: 0o755 })
    const [shell = '', ...args] = only(metabaseImage, 'CMD').words.map(word =>
      word.replaceAll('/home/metabase/drivers', drivers),
    )
    const env = { PATH: `${root}:/usr/bin:/bin`, MB_PLUGINS_DIR: join(root, 'tmp/plugins') }
    for (const _ of ['first', 'again']) {
      const { stdout } = await promisify(execFile)(shell, args, { env })
      expect(stdout).toBe('-XX:MaxRAMPercentage=40 -jar metabase.jar\n')
    }
    expect(await readdir(env.MB_PLUGINS_DIR)).toEqual(['duckdb.metabase-driver.jar'])
    expect(await readlink(join(env.MB_PLUGINS_DIR, 'duckdb.metabase-driver.jar'))).toContain(drivers)
    const copied = metabaseImage.filter(({ keyword }) => keyword === 'COPY').map(({ words }) => words)
    expect(copied).toContainEqual(['/downloads/duckdb.metabase-driver.jar', 'drivers/'])
  })

  test('nothing is reached from outside this host, and Redis by its workers alone', async () => {
    for (const [name, { ports = [] }] of everyService) {
      for (const port of ports) expect(port, name).toMatch(/^127\.0\.0\.1:/)
    }
    expect(services.redis.ports).toBeUndefined()
    expect(services.sandbox.ports).toBeUndefined()
    const { networks } = await readCompose()
    expect(networks).toEqual({ redis: { internal: true } })
    const joined = Object.fromEntries(
      everyService.map(([name, service]) => [name, service.network_mode ?? service.networks ?? ['default']]),
    )
    expect(joined).toEqual({
      'redis-password': 'none',
      redis: ['redis'],
      worker: ['default', 'redis'],
      metabase: ['default'],
      sandbox: ['default'],
      'demo-worker': ['default', 'redis'],
    })
  })

  test('the password of Redis is mounted by Redis and its workers alone, who cannot change it', () => {
    const mounts = everyService.flatMap(([name, { volumes = [] }]) =>
      volumes.filter(mount => mount.startsWith('redis-password:')).map(mount => [name, mount]),
    )
    expect(mounts).toEqual([
      ['redis-password', 'redis-password:/run/redis'],
      ...['redis', 'worker', 'demo-worker'].map(name => [name, 'redis-password:/run/redis:ro']),
    ])
    for (const { environment } of workers) {
      expect(environment?.REDIS_PASSWORD_FILE).toBe('/run/redis/password')
      expect(new URL(environment?.REDIS_URL ?? '').password).toBe('')
    }
    const condition = services.redis.depends_on?.['redis-password']?.condition
    expect(condition).toBe('service_completed_successfully')
    expect(services['redis-password'].restart).toBe('no')
  })

  test('each service has limits, which .env can change; those of a worker hold all that it may start', async () => {
    for (const [name, { mem_limit, pids_limit }] of everyService) {
      expect.soft(mem_limit, name).toMatch(/^\d+[mg]$/)
      expect.soft(Number(pids_limit), name).toBeGreaterThan(0)
    }
    const { concurrency, serve } = readDaemonSettings({
      SERVE_BUILDERS: services.worker.environment?.SERVE_BUILDERS,
    })
    // What ARCHITECTURE.md says that they take at most.
    const megabytes = concurrency * 900 + serve.builders * 700 + 800 + 64
    expect(bytesOf(services.worker.mem_limit)).toBeGreaterThan(megabytes * 1_000_000)
    // A rewrite of its file can double it, and it must refuse jobs before it is killed.
    const maxmemory = services.redis.command?.at(-1)
    expect(services.redis.command?.at(-2)).toBe('--maxmemory')
    expect(bytesOf(services.redis.mem_limit)).toBeGreaterThan(2 * bytesOf(maxmemory))
    const changed = await readCompose({ WORKER_MEMORY: '9g', REDIS_MEMORY: '2g', METABASE_MEMORY: '6g' })
    const limits = ['worker', 'demo-worker', 'redis', 'metabase'] as const
    expect(limits.map(name => changed.services[name].mem_limit)).toEqual(['9g', '9g', '2g', '6g'])
  })

  test('every image can be pinned to a digest', async () => {
    const digest = 'registry.example/x@sha256:0123'
    const pinned = await readCompose({ REDIS_IMAGE: digest })
    for (const [name, { image: own, build }] of Object.entries(pinned.services)) {
      if (!build) expect(own, name).toBe(digest)
    }
    const dockerfiles = { '.': DOCKERFILE, 'config/metabase': METABASE_DOCKERFILE }
    for (const [context, path] of Object.entries(dockerfiles)) {
      const text = await readFile(path, 'utf8')
      const bases = [...text.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base)
      const args = [...text.matchAll(/^ARG (\w+_IMAGE)=\S+$/gm)].map(([, name]) => name)
      expect([...new Set(bases)]).toEqual(args.map(name => `\${${name}}`))
      for (const [name, { build }] of everyService) {
        if (build?.context === context) expect(build.args, name).toEqual(args)
      }
    }
  })

  test('what can be set in .env is what .env.example names', async () => {
    const compose = await readFile(COMPOSE_FILE, 'utf8')
    const example = await readFile(join(PROJECT, '.env.example'), 'utf8')
    const named = everyService.flatMap(([, { build }]) => build?.args ?? [])
    const variables = [...compose.matchAll(VARIABLE)].map(([, name = '']) => name)
    for (const name of new Set([...variables, ...named])) expect.soft(example).toMatch(`\n#${name}=`)
    for (const [, name, otherwise] of compose.matchAll(VARIABLE)) {
      expect.soft(example, name).toContain(`\n#${name}=${otherwise}\n`)
    }
  })

  test('three workers find a port each, and none is another service’s', () => {
    const [range = ''] = services.worker.ports ?? []
    const [, first, last, inside] = /^127\.0\.0\.1:(\d+)-(\d+):(\d+)$/.exec(range)?.map(Number) ?? []
    expect(Number(last) - Number(first)).toBeGreaterThanOrEqual(2)
    expect(String(inside)).toBe(services.worker.environment?.HTTP_PORT)
    const [demo = ''] = services['demo-worker'].ports ?? []
    expect(Number(demo.split(':')[1])).toBeGreaterThan(Number(last))
  })

  test('what is started comes back, has a minute to stop, and cannot fill the disk with its log', () => {
    for (const [name, { restart, logging }] of running) {
      expect.soft(restart, name).toBe('unless-stopped')
      expect.soft(Object.keys(logging?.options ?? {}), name).toEqual(['max-size', 'max-file'])
    }
    for (const worker of workers) expect(worker.stop_grace_period).toBe('60s')
  })

  test('every setting in it is known, and has a value that is accepted', () => {
    const known = [...COMPANY_SETTINGS, ...SCHEDULE_SETTINGS, ...DAEMON_SETTINGS, 'API_KEY']
    for (const { environment = {} } of workers) {
      expect(known).toEqual(expect.arrayContaining(Object.keys(environment)))
      const all = { ...environmentOfImage(), ...environment }
      // The file is the container's.
      const { redis } = readDaemonSettings({ ...all, REDIS_PASSWORD_FILE: undefined })
      expect(redis.url).toMatch(/^redis:\/\/redis:6379/)
      readSchedule(all)
      readSettings(all)
    }
  })

  test('it holds no secret: keys come as files that cannot be written, and from .env', async () => {
    const key = sandboxKey('1', 'aurora')
    for (const [name, { environment = {} }] of everyService) {
      const secrets = Object.entries(environment).filter(
        ([setting]) => /KEY|TOKEN|WEBHOOK|PASS/.test(setting) && !setting.endsWith('_FILE'),
      )
      expect(secrets, name).toEqual(name === 'demo-worker' ? [['API_KEY', key]] : [])
    }
    const text = (await readFile(COMPOSE_FILE, 'utf8')).replaceAll(key, '')
    expect(text).not.toMatch(/edk_|bearer/i)
    // What Compose replaces is in `docker inspect`: no secret.
    const variables = [...text.matchAll(/\$\{(\w+)/g)].map(([, name = '']) => name)
    for (const name of variables) expect(name).toMatch(/^\w+_(?:MEMORY|MAXMEMORY|PIDS|IMAGE|BUILDERS)$/)
    expect(services.worker.volumes).toContain('./secrets:/run/secrets:ro')
  })

  test('the worker starts where nothing is configured yet', () => {
    expect(services.worker.env_file).toEqual([{ path: '.env', required: false }])
    expect(services.worker.profiles).toBeUndefined()
    expect(Object.keys(services.worker.depends_on ?? {})).toEqual(['redis'])
    expect(services.worker.volumes).toContain('./config:/config:ro')
    expect(services.worker.environment?.COMPANIES_FILE).toBe('/config/companies.yaml')
  })

  test('the demonstration needs nothing from the host', () => {
    for (const name of ['sandbox', 'demo-worker'] as const) {
      const service: Service = services[name]
      expect(service.profiles, name).toEqual(['demo'])
      expect(service.env_file, name).toBeUndefined()
      for (const mount of service.volumes ?? [])
        expect(mount, name).toMatch(/^[a-z-]+:\/(?:data|run\/redis:ro)$/)
    }
    const { baseUrl, apiKey } = readApiSettings(services['demo-worker'].environment ?? {})
    expect(new URL(baseUrl).host).toBe('sandbox:8787')
    expect(apiKey).toBe(sandboxKey('1', services['demo-worker'].environment?.COMPANY ?? ''))
    expect(services['demo-worker'].environment?.REDIS_URL).not.toBe(services.worker.environment?.REDIS_URL)
  })
})

describe('Dockerfile', () => {
  test('is free of what a build would refuse', async () => {
    const text = await readFile(DOCKERFILE, 'utf8')
    expect(validate(text)).toEqual([])
    expect(validate(await readFile(METABASE_DOCKERFILE, 'utf8'))).toEqual([])
    expect(validate(text.replace('--start-period', '--start-perod'))).toHaveLength(1)
  })

  test('the worker runs as a user who owns nothing but the data, below an init', () => {
    expect(only(image, 'USER').words).toEqual(['node'])
    expect(image.findIndex(({ keyword }) => keyword === 'USER')).toBeGreaterThan(
      image.findLastIndex(({ keyword }) => ['RUN', 'COPY'].includes(keyword)),
    )
    expect(image.filter(({ flags }) => 'chown' in flags || 'chmod' in flags)).toEqual([])
    expect(only(image, 'ENTRYPOINT').words).toEqual(['/usr/bin/tini', '--'])
    expect(only(image, 'CMD').words).toEqual(['node', 'jobs/main.ts'])
  })

  test('no key, data or test of whoever builds it is sent to the build', async () => {
    expect((await readBuildContext()).sort()).toEqual(
      [
        '.npmrc',
        'config/*.ts',
        'config/metabase',
        'jobs',
        'package-lock.json',
        'package.json',
        'schema',
        'src',
      ].sort(),
    )
  })
})

/** What the schema, and the rules about mistakes rather than taste, have against a compose file. */
function problemsOf(path: string): string[] {
  const linter = new DCLinter({ rules: {}, quiet: true, debug: false, exclude: [] })
  // Its declarations lose their types under Node's resolution.
  const files = linter.lintFiles([path], false) as {
    messages: { type: string; rule: string; message: string }[]
  }[]
  return files
    .flatMap(({ messages }) => messages)
    .filter(({ type }) => type === 'error')
    .map(({ rule, message }) => `${rule}: ${message}`)
}

function environmentOfImage(): Record<string, string> {
  return environmentOf(image)
}

function environmentOf(instructions: readonly Instruction[]): Record<string, string> {
  const settings = only(instructions, 'ENV').words.map(word => word.split('=') as [string, string])
  return Object.fromEntries(settings)
}

/** `256mb` of Redis, `640m` and `4g` of Compose. */
function bytesOf(size = ''): number {
  const [, amount, unit] = /^(\d+)([mg])b?$/.exec(size) ?? []
  return Number(amount) * (unit === 'g' ? 1024 ** 3 : 1024 ** 2)
}

function only(instructions: readonly Instruction[], keyword: string): Instruction {
  const found = instructions.filter(instruction => instruction.keyword === keyword)
  expect(found, keyword).toHaveLength(1)
  return found[0] as Instruction
}

function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((word, index) => (index % 2 === 0 ? [[word, flat[index + 1] ?? '']] : []))
}
