import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DCLinter } from 'dclint'
import { validate } from 'dockerfile-utils'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { DAEMON_SETTINGS, readDaemonSettings, readSchedule } from '#config/daemon.ts'
import { COMPANY_SETTINGS, readSettings, SCHEDULE_SETTINGS } from '#config/settings.ts'
import { MAX_BUILDERS } from '#src/server/builders.ts'
import {
  COMPOSE_FILE,
  DEMO_FILE,
  DOCKERFILE,
  HOSTS_FILE,
  type Instruction,
  METABASE_DOCKERFILE,
  PROJECT,
  readBuildContext,
  readCompose,
  readDemo,
  readDockerfile,
  VARIABLE,
} from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { explainedSettings } from '#tools/settings_page.ts'

const { services, volumes } = await readCompose()
const everyService = Object.entries(services)
const image = (await readDockerfile()).at(-1)?.instructions ?? []
const OURS = '"editais-sync'
/** Services that run once and exit are left out. */
const running = everyService.filter(([, { restart }]) => restart !== 'no')

describe('docker-compose.yml', () => {
  test('follows the published Compose schema, as does the demonstration', () => {
    expect(problemsOf(COMPOSE_FILE)).toEqual([])
    expect(problemsOf(DEMO_FILE)).toEqual([])
  })

  test('… which rejects a misspelt property', async () => {
    const path = join(await temporaryDirectory(), 'docker-compose.yml')
    const text = await readFile(COMPOSE_FILE, 'utf8')
    await writeFile(path, text.replace('stop_grace_period', 'stop_grace_time'))
    expect(problemsOf(path)).toEqual([expect.stringContaining('additional properties')])
  })

  test('docker-compose.hosts.yml leaves a worker alone, which needs a Redis and a log elsewhere', async () => {
    const override = (value: unknown) => value
    const customTags = ['!reset', '!override'].flatMap(tag => [
      { tag, resolve: override },
      { tag, collection: 'map' as const, resolve: override },
      { tag, collection: 'seq' as const, resolve: override },
    ])
    const { worker, ...others } = parse(await readFile(HOSTS_FILE, 'utf8'), { customTags }).services
    expect(worker.environment).toMatchObject({
      REDIS_URL: expect.stringMatching(/^\$\{REDIS_URL:\?.+\}$/),
      LOG_URL: expect.stringMatching(/^\$\{LOG_URL:\?.+\}$/),
    })
    const own = services.worker.volumes?.filter(mount => !/^(redis-password|s3-key):/.test(String(mount)))
    expect(worker.volumes).toEqual(own)
    // What the worker waits for elsewhere does not start here.
    const waitedFor = Object.keys(services.worker.depends_on ?? {})
    expect(Object.keys(others)).toEqual([...waitedFor, ...Object.keys(services.redis.depends_on ?? {})])
    for (const { profiles } of Object.values<{ profiles: string[] }>(others)) expect(profiles).toHaveLength(1)
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

  test("every service has a health check, its own or its image's", () => {
    const own = everyService.filter(([, { healthcheck }]) => healthcheck).map(([name]) => name)
    expect(own).toEqual(['redis', 'metabase-db', 's3', 'iceberg-catalog', 'trino'])
    expect(only(image, 'HEALTHCHECK').words).toEqual(['node', 'jobs/healthcheck.ts'])
    expect(services.worker.depends_on?.redis?.condition).toBe('service_healthy')
    // Checked twice a second at first, so that dependent services do not wait for the check.
    for (const name of ['redis', 'metabase-db', 's3'] as const) {
      expect(services[name].healthcheck, name).toMatchObject({ start_interval: '500ms', start_period: '60s' })
    }
    // These take some seconds anyway.
    expect(services['iceberg-catalog'].healthcheck).toMatchObject({
      start_interval: '1s',
      start_period: '60s',
    })
    expect(services.trino.healthcheck).toMatchObject({ start_interval: '2s', start_period: '180s' })
  })

  test('the data is in one volume, at the path set in the image', () => {
    const dataDir = environmentOfImage().DATA_DIR
    expect(services.worker.environment?.DATA_DIR).toBe(dataDir)
    expect(services.worker.volumes).toContain(`data:${dataDir}`)
    expect(Object.keys(volumes)).toEqual([
      'redis',
      'redis-password',
      'data',
      'metabase-db',
      'metabase-password',
      'metabase-spill',
      's3',
      's3-key',
      'iceberg-catalog',
    ])
  })

  test('one service builds each image, and no registry is asked for its name', () => {
    const builders = everyService.filter(([, { build }]) => build)
    expect(builders.map(([name, { build }]) => [name, build?.context])).toEqual([
      ['worker', '.'],
      ['metabase', 'config/metabase'],
    ])
    const ours = everyService.filter(([, { image: tag }]) => tag === services.worker.image)
    expect(ours.map(([name, { pull_policy }]) => [name, pull_policy])).toEqual([
      ['worker', 'never'],
      ['metabase-lake', 'never'],
    ])
    // Starting Metabase alone builds the image too.
    expect(Object.keys(services['metabase-lake'].depends_on ?? {})).toEqual(['worker'])
  })

  test('no service has rights that it does not need', () => {
    for (const [name, service] of everyService) {
      expect.soft(service.read_only, name).toBe(true)
      expect.soft(service.cap_drop, name).toEqual(['ALL'])
      expect.soft(service.security_opt, name).toEqual(['no-new-privileges:true'])
    }
    const users = [services.redis.user, services['metabase-db'].user, services.s3.user]
    expect(users).toEqual(['redis', 'postgres', '1000:1000'])
    for (const name of ['worker', 'metabase-lake'] as const) {
      expect.soft(services[name].user, `${name} runs as the image's user`).toBeUndefined()
      expect.soft(services[name].tmpfs?.[0], `${name} has a /tmp`).toMatch(/^\/tmp\b/)
    }
  })

  test('no service is reachable from outside the host, and Redis only by its workers', async () => {
    for (const [name, { ports = [] }] of everyService) {
      for (const port of ports) expect(port, name).toMatch(/^127\.0\.0\.1:/)
    }
    const published = everyService.filter(([, { ports }]) => ports).map(([name]) => name)
    expect(published).toEqual(['worker', 'metabase', 'trino'])
    const { networks } = await readCompose()
    const internal = { internal: true }
    expect(networks).toEqual({ redis: internal, metabase: internal, lake: internal })
    const joined = Object.fromEntries(
      everyService.map(([name, service]) => [name, service.network_mode ?? service.networks ?? ['default']]),
    )
    expect(joined).toEqual({
      'redis-password': 'none',
      redis: ['redis'],
      worker: ['default', 'redis', 'lake'],
      metabase: ['default', 'metabase'],
      'metabase-lake': 'none',
      'metabase-password': 'none',
      'metabase-db': ['metabase'],
      's3-key': 'none',
      s3: ['lake'],
      'iceberg-catalog': ['lake'],
      trino: ['default', 'lake'],
    })
  })

  test('each volume that an image declares has a name or is in memory: `down` leaves none behind', () => {
    const declared = { redis: '/data', postgres: '/var/lib/postgresql/data' }
    for (const [image, path] of Object.entries(declared)) {
      for (const [name, service] of everyService) {
        if (!service.image?.startsWith(`${image}:`)) continue
        const mounts = [...(service.volumes ?? []), ...(service.tmpfs ?? [])].map(String)
        const covers = mounts.filter(mount => mount.split(':').includes(path))
        expect(covers, name).toHaveLength(1)
      }
    }
  })

  test('a password is mounted only where it is needed, and read-only', () => {
    const mountsOf = (volume: string) =>
      everyService.flatMap(([name, { volumes = [] }]) =>
        volumes.filter(mount => String(mount).startsWith(`${volume}:`)).map(mount => [name, mount]),
      )
    expect(mountsOf('redis-password')).toEqual([
      ['redis-password', 'redis-password:/run/redis'],
      ['redis', 'redis-password:/run/redis:ro'],
      ['worker', 'redis-password:/run/redis:ro'],
    ])
    expect(mountsOf('metabase-password')).toEqual([
      ['metabase', 'metabase-password:/run/metabase:ro'],
      ['metabase-password', 'metabase-password:/run/metabase'],
      ['metabase-db', 'metabase-password:/run/metabase:ro'],
    ])
    expect(mountsOf('s3-key')).toEqual([
      ['worker', 's3-key:/run/s3:ro'],
      ['s3-key', 's3-key:/run/s3'],
      ['s3', 's3-key:/run/s3:ro'],
      ['iceberg-catalog', 's3-key:/run/s3:ro'],
      ['trino', 's3-key:/run/s3:ro'],
    ])
    const { environment } = services.worker
    expect(environment?.REDIS_PASSWORD_FILE).toBe('/run/redis/password')
    expect(new URL(environment?.REDIS_URL ?? '').password).toBe('')
    for (const [user, maker] of [
      ['redis', 'redis-password'],
      ['metabase-db', 'metabase-password'],
      ['s3', 's3-key'],
      ['iceberg-catalog', 's3-key'],
    ] as const) {
      expect(services[user].depends_on?.[maker]?.condition).toBe('service_completed_successfully')
      expect(services[maker].restart).toBe('no')
    }
  })

  test("each service has limits; a worker's, which .env can change, cover all that it may start", async () => {
    for (const [name, { mem_limit, pids_limit }] of everyService) {
      expect.soft(mem_limit, name).toMatch(/^\d+[mg]$/)
      expect.soft(Number(pids_limit), name).toBeGreaterThan(0)
    }
    const { concurrency } = readDaemonSettings({})
    // The maxima in docs/internals/measurements.md.
    const megabytes = concurrency * 900 + MAX_BUILDERS * 700 + 2 * 700 + 800 + 640
    expect(bytesOf(services.worker.mem_limit)).toBeGreaterThan(megabytes * 1_000_000)
    // Rewriting its file can double its memory, and it must refuse jobs before it is killed.
    const maxmemory = services.redis.command?.at(-1)
    expect(services.redis.command?.at(-2)).toBe('--maxmemory')
    expect(bytesOf(services.redis.mem_limit)).toBeGreaterThan(2 * bytesOf(maxmemory))
    const changed = await readCompose({ WORKER_MEMORY: '9g' })
    expect(changed.services.worker.mem_limit).toBe('9g')
  })

  test('every base image of a build can be pinned to a digest', async () => {
    for (const path of [DOCKERFILE, METABASE_DOCKERFILE]) {
      const text = await readFile(path, 'utf8')
      const bases = [...text.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base)
      const args = [...text.matchAll(/^ARG (\w+_IMAGE)=\S+$/gm)].map(([, name]) => name)
      expect([...new Set(bases)].sort()).toEqual(args.map(name => `\${${name}}`).sort())
    }
  })

  test('every variable for .env is explained', async () => {
    const compose = (await readFile(COMPOSE_FILE, 'utf8')) + (await readFile(DEMO_FILE, 'utf8'))
    const explained = explainedSettings()
    for (const [, name, otherwise] of compose.matchAll(VARIABLE)) {
      const { usual, inDocker } = explained.get(`${name}`) ?? {}
      expect.soft(inDocker ?? usual, name).toBe(otherwise || null)
    }
  })

  test('the worker has one port, the same after every start; a range must be set for several workers', async () => {
    const inside = services.worker.environment?.HTTP_PORT
    expect(services.worker.ports).toEqual([`127.0.0.1:8080:${inside}`])
    const scaled = await readCompose({ HTTP_PORT: '8080-8089' })
    expect(scaled.services.worker.ports).toEqual([`127.0.0.1:8080-8089:${inside}`])
  })

  test('services restart, have a minute to stop, and cannot fill the disk with their logs', () => {
    for (const [name, { restart, logging }] of running) {
      expect.soft(restart, name).toBe('unless-stopped')
      expect.soft(Object.keys(logging?.options ?? {}), name).toEqual(['max-size', 'max-file'])
    }
    expect(services.worker.stop_grace_period).toBe('60s')
  })

  test('every setting of a worker is known and has a valid value', async () => {
    const known = [...COMPANY_SETTINGS, ...SCHEDULE_SETTINGS, ...DAEMON_SETTINGS, 'API_KEY']
    for (const { environment = {} } of [services.worker, (await readDemo()).services.worker]) {
      expect(known).toEqual(expect.arrayContaining(Object.keys(environment)))
      const all = { ...environmentOfImage(), ...environment }
      // The file exists only in the container.
      const { redis } = readDaemonSettings({ ...all, REDIS_PASSWORD_FILE: undefined })
      expect(redis.url).toMatch(/^redis:\/\/redis:6379/)
      readSchedule(all)
      readSettings(all)
    }
  })

  test('it contains no secret: keys come from read-only files and from .env', async () => {
    for (const [name, { environment = {} }] of everyService) {
      const secrets = Object.entries(environment).filter(
        ([setting]) => /KEY|TOKEN|WEBHOOK|PASS/.test(setting) && !setting.endsWith('_FILE'),
      )
      expect(secrets, name).toEqual([])
    }
    const text = await readFile(COMPOSE_FILE, 'utf8')
    expect(text).not.toMatch(/edk_|bearer/i)
    // `docker inspect` shows what Compose replaces: it must not be a secret.
    const variables = [...text.matchAll(/\$\{(\w+)/g)].map(([, name = '']) => name)
    for (const name of variables)
      expect(name).toMatch(/^(?:COMPANY|HTTP_PORT|WORKER_MEMORY|METABASE_DUCKDB_MEMORY_MB)$/)
    expect(services.worker.volumes).toContain('./secrets:/run/secrets:ro')
  })

  test('the worker starts with nothing configured yet', () => {
    expect(services.worker.env_file).toEqual([{ path: '.env', required: false }])
    expect(services.worker.profiles).toBeUndefined()
    expect(Object.keys(services.worker.depends_on ?? {})).toEqual(['redis'])
    expect(services.worker.volumes).toContain('./config:/config:ro')
    expect(services.worker.environment?.COMPANIES_FILE).toBe('/config/companies.yaml')
  })
})

describe('Dockerfile', () => {
  test('contains nothing that a build would refuse', async () => {
    const text = await readFile(DOCKERFILE, 'utf8')
    expect(validate(text)).toEqual([])
    expect(validate(await readFile(METABASE_DOCKERFILE, 'utf8'))).toEqual([])
    expect(validate(text.replace('--start-period', '--start-perod'))).toHaveLength(1)
  })

  test('the worker runs under an init, as a user who owns only the data', () => {
    // Numbers, because Kubernetes cannot tell from a name whether it is root.
    expect(only(image, 'USER').words).toEqual(['1000:1000'])
    expect(image.findIndex(({ keyword }) => keyword === 'USER')).toBeGreaterThan(
      image.findLastIndex(({ keyword }) => ['RUN', 'COPY'].includes(keyword)),
    )
    expect(image.filter(({ flags }) => 'chown' in flags || 'chmod' in flags)).toEqual([])
    expect(only(image, 'ENTRYPOINT').words).toEqual(['/usr/bin/tini', '--'])
    expect(only(image, 'CMD').words).toEqual(['node', 'jobs/main.ts'])
  })

  test('it has the OCI labels, and a new commit rebuilds no layer', async () => {
    const { name, version, description } = JSON.parse(await readFile(join(PROJECT, 'package.json'), 'utf8'))
    const labels = only(image, 'LABEL').text.replaceAll(/\\\n\s*/g, '')
    for (const [label, value] of Object.entries({
      title: name,
      description,
      version,
      revision: `\${REVISION}`,
    })) {
      expect(labels).toContain(`org.opencontainers.image.${label}="${value}"`)
    }
    expect(image.slice(-2).map(({ keyword }) => keyword)).toEqual(['ARG', 'LABEL'])
  })

  test('no local key, data or test is sent to the build', async () => {
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

/** What the schema and the linter's error rules report on a compose file; style rules are left out. */
function problemsOf(path: string): string[] {
  const linter = new DCLinter({ rules: {}, quiet: true, debug: false, exclude: [] })
  // Its declarations lose their types under Node's resolution.
  const files = linter.lintFiles([path], false) as {
    messages: { type: string; rule: string; message: string }[]
  }[]
  return (
    files
      .flatMap(({ messages }) => messages)
      .filter(({ type }) => type === 'error')
      // An image built here is as new as the checkout.
      .filter(({ rule, message }) => rule !== 'service-image-require-explicit-tag' || !message.includes(OURS))
      .map(({ rule, message }) => `${rule}: ${message}`)
  )
}

function environmentOfImage(): Record<string, string> {
  return environmentOf(image)
}

function environmentOf(instructions: readonly Instruction[]): Record<string, string> {
  const settings = only(instructions, 'ENV').words.map(word => word.split('=') as [string, string])
  return Object.fromEntries(settings)
}

/** Parses `256mb` of Redis, `640m` and `4g` of Compose. */
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
