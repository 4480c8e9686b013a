import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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
  readBuildContext,
  readCompose,
  readDockerfile,
  type Service,
} from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const { services, volumes } = await readCompose()
const everyService = Object.entries(services)
const ours = everyService.filter(([, service]) => service.build === '.')
const workers = [services.worker, services['demo-worker']]
const image = (await readDockerfile()).at(-1)?.instructions ?? []

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
    const [program, ...options] = command
    expect(program).toBe('redis-server')
    const settings = Object.fromEntries(pairs(options))
    expect(settings).toMatchObject({
      '--appendonly': 'yes',
      '--appendfsync': 'everysec',
      '--maxmemory-policy': 'noeviction',
    })
    expect(mounts).toEqual(['redis:/data'])
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
    expect(Object.keys(volumes)).toEqual(['redis', 'data', 'demo-data', 'metabase'])
    expect(services.metabase.volumes).toEqual([`data:${dataDir}:ro`, 'metabase:/metabase'])
  })

  test('no service has rights that it does not need', () => {
    for (const [name, service] of everyService) {
      // Metabase unpacks its drivers beside its program.
      expect.soft(service.read_only ?? false, name).toBe(name !== 'metabase')
      expect.soft(service.cap_drop, name).toEqual(['ALL'])
      expect.soft(service.security_opt, name).toEqual(['no-new-privileges:true'])
    }
    expect(services.redis.user).toBe('redis')
    for (const [name, service] of ours) {
      expect.soft(service.user, `${name} runs as the image says`).toBeUndefined()
      expect.soft(service.tmpfs?.[0], `${name} has a /tmp`).toMatch(/^\/tmp\b/)
    }
  })

  test('nothing is reached from outside this host, and Redis not even from it', () => {
    for (const [name, { ports = [] }] of everyService) {
      for (const port of ports) expect(port, name).toMatch(/^127\.0\.0\.1:/)
    }
    expect(services.redis.ports).toBeUndefined()
    expect(services.sandbox.ports).toBeUndefined()
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
    for (const [name, { restart, logging }] of everyService) {
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
      expect(readDaemonSettings(all).redis.url).toMatch(/^redis:\/\/redis:6379/)
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
    expect((await readFile(COMPOSE_FILE, 'utf8')).replaceAll(key, '')).not.toMatch(/edk_|bearer|\$\{/i)
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
      for (const mount of service.volumes ?? []) expect(mount, name).toMatch(/^[a-z-]+:\/data$/)
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
  const settings = only(image, 'ENV').words.map(word => word.split('=') as [string, string])
  return Object.fromEntries(settings)
}

function only(instructions: readonly Instruction[], keyword: string): Instruction {
  const found = instructions.filter(instruction => instruction.keyword === keyword)
  expect(found, keyword).toHaveLength(1)
  return found[0] as Instruction
}

function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((word, index) => (index % 2 === 0 ? [[word, flat[index + 1] ?? '']] : []))
}
