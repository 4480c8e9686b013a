import { expect, test } from 'vitest'
import { readApiSettings } from '#config/settings.ts'
import { deriveSandboxKey } from '#src/sandbox/server.ts'
import { readCompose, readDemo } from '#test/support/docker.ts'

const demo = await readDemo()
const { services } = demo
const real = await readCompose()

test('the demonstration is a separate project: removing it leaves the real one and its volumes', () => {
  expect([demo.name, real.name]).toEqual(['editais-sync-demo', 'editais-sync'])
  expect(Object.keys(services)).toEqual(['redis-password', 'redis', 'sandbox', 'worker'])
  expect(services.worker.image).not.toBe(real.services.worker.image)
  // Also if COMPOSE_PROJECT_NAME is set, which overrides both names.
  expect(demo.volumes).toEqual(
    Object.fromEntries(
      ['redis', 'redis-password', 'data'].map(name => [name, { name: `editais-sync-demo_${name}` }]),
    ),
  )
})

test('it needs nothing from the host, and no profile', () => {
  for (const name of ['sandbox', 'worker'] as const) {
    expect(services[name].profiles, name).toBeUndefined()
    expect(services[name].env_file, name).toBeUndefined()
    for (const mount of services[name].volumes ?? [])
      expect(mount, name).toMatch(/^[a-z-]+:\/(?:data|run\/redis:ro)$/)
  }
  const { baseUrl, apiKey } = readApiSettings(services.worker.environment ?? {})
  expect(new URL(baseUrl).host).toBe('sandbox:8787')
  expect(apiKey).toBe(deriveSandboxKey('1', services.worker.environment?.COMPANY ?? ''))
})

test('one service builds its image, and every other service with that image waits for it', () => {
  const ofTheImage = Object.entries(services).filter(([, { image }]) => image === 'editais-sync-demo')
  expect(ofTheImage.map(([name, { build, pull_policy }]) => [name, build?.context, pull_policy])).toEqual([
    ['sandbox', '.', 'never'],
    ['worker', undefined, 'never'],
  ])
  expect(services.sandbox.build).toEqual(real.services.worker.build)
  expect(services.worker.depends_on?.sandbox?.condition).toBe('service_healthy')
  expect(services.worker.depends_on?.redis?.condition).toBe('service_healthy')
})

test('its worker is as limited and locked down as the real one', () => {
  const { worker } = services
  for (const key of [
    'restart',
    'read_only',
    'tmpfs',
    'cap_drop',
    'security_opt',
    'mem_limit',
    'pids_limit',
    'logging',
    'stop_grace_period',
  ] as const) {
    expect.soft(worker[key], key).toEqual(real.services.worker[key])
    if (!['mem_limit', 'pids_limit', 'stop_grace_period'].includes(key))
      expect.soft(services.sandbox[key], key).toEqual(worker[key])
  }
  // The real one is also in the network of the object store.
  expect(worker.networks).toEqual(['default', 'redis'])
  expect(demo.networks).toEqual({ redis: { internal: true } })
  expect(worker.ports).toEqual(['127.0.0.1:8090:8080'])
  expect(services.sandbox.ports).toBeUndefined()
  expect(services.sandbox.mem_limit).toBe('512m')
})
