import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Redis } from 'ioredis'
import { expect, onTestFinished } from 'vitest'
import type { LogLine } from '#tools/service_process.ts'
import { type Daemon, startDaemon, tail, until } from './daemon.ts'
import { isRun, NO_LOOKS, OFTEN, runsOf } from './daemon_runs.ts'
import { holdAfter } from './held.ts'
import { idOf, notices } from './notices.ts'
import { type Environment, runCommand, temporaryDirectory } from './project.ts'
import { type OwnRedis, type RedisProxy, startOwnRedis, startProxy, withClient } from './redis.ts'
import { smallestRights } from './redis_rights.ts'
import { startCompany } from './synced.ts'
import { asked, expectTruth } from './truth.ts'

const TOTAL = 20
const ALL = Array.from({ length: TOTAL }, (_, index) => idOf(index + 1))
/** Runs must continue within this time after the cure. */
const CURED_WITHIN_MS = 30_000
const USER = 'worker'
const PASSWORD = 'pw_5d1c'
/** A Redis, a proxy to it that can fail, and an administrator for everything else. */
export type Place = {
  readonly redis: OwnRedis
  readonly proxy: RedisProxy
  admin<T>(use: (client: Redis) => Promise<T>): Promise<T>
}

/** One way for Redis to become unusable, and to recover. */
export type BadState = {
  readonly name: string
  /** The message of a worker and of `sync --enqueue`. */
  readonly sentence: RegExp
  spoil(place: Place): Promise<unknown> | unknown
  cure(place: Place): Promise<unknown> | unknown
  /** Whether Redis is reached by TLS. */
  readonly tls?: boolean
}

/**
 * During a run and at startup: the run continues, each worker logs the problem once, /readyz reports it too, and
 * within 30 s of the cure runs are made again. Nothing is fetched twice.
 */
export async function expectToSurvive(state: BadState): Promise<void> {
  const { place, environment, company } = await startPlace(state)
  const held = holdAfter(company.sandbox, 'analysis', { passing: TOTAL / 2 })
  const inMidRun = await startDaemon(environment)
  await held.reached
  await state.spoil(place)
  const atTheStart = await startDaemon(environment)
  const both = [inMidRun, atTheStart]
  await Promise.all(both.map(daemon => expectNotReady(daemon, state)))
  held.release()
  await inMidRun.waitFor(line => isRun(line, 'acme'))
  expect(runsOf(both)).toMatchObject([{ status: 'ok', loaded: TOTAL }])
  await expectNothingHandedOver(environment, state)

  await state.cure(place)
  const curedMs = Date.now()
  const left = () => curedMs + CURED_WITHIN_MS - Date.now()
  const logs = () => both.map(({ lines }) => tail(lines)).join('\n\n')
  await until(() => runsOf(both).length >= 3, { what: () => `more runs:\n${logs()}`, withinMs: left() })
  for (const daemon of both) {
    await until(async () => (await daemon.ask('/readyz')).status === 200, { what: 'ready', withinMs: left() })
  }
  // /readyz checks by itself, and may report the recovery first.
  await Promise.all(both.map(daemon => daemon.waitFor(({ msg }) => msg === 'Redis answers again.')))
  expect(runsOf(both).slice(1)).toMatchObject(
    Array(runsOf(both).length - 1).fill({ status: 'ok', unchanged: TOTAL }),
  )
  expect(asked(company, 'analysis')).toEqual(ALL)
  await expectTruth(company)
  for (const daemon of both) expectOneSentence(daemon.lines, state)
  expect(await Promise.all(both.map(daemon => daemon.stop()))).toEqual([0, 0])
}

async function startPlace({ tls = false }: BadState) {
  const authority = tls ? await makeAuthority() : null
  const user = ['--user', USER, 'on', `>${PASSWORD}`, ...smallestRights('states')]
  const redis = authority ? await startTlsRedis(authority) : await startOwnRedis({ args: user })
  const admin: Place['admin'] = async use => await withClient(redis.url, use)
  const proxy = await startProxy(redis.url)
  const url = new URL(proxy.url)
  if (!tls) Object.assign(url, { username: USER, password: PASSWORD })
  const company = await startCompany(notices(1, TOTAL), {
    SYNC_CRON: OFTEN,
    ...NO_LOOKS,
    JOB_LOCK_MS: '3000',
    API_TIMEOUT_MS: '60000',
    REDIS_URL: tls ? url.href.replace('redis:', 'rediss:') : url.href,
    REDIS_PREFIX: 'states',
    ...(authority ? { REDIS_CA_FILE: authority.certificate } : {}),
  })
  return { place: { redis, proxy, admin }, environment: company.environment, company }
}

async function expectNotReady(daemon: Daemon, { sentence }: BadState): Promise<void> {
  await daemon.waitFor(({ msg }) => sentence.test(msg))
  const response = await daemon.ask('/readyz')
  expect(response.status).toBe(503)
  const { checks } = (await response.json()) as { checks: { redis: { ok: boolean; detail: string } } }
  expect(checks.redis).toEqual({ ok: false, detail: expect.stringMatching(sentence) })
  const post = await daemon.ask('/companies/acme/sync', { method: 'POST' })
  expect(post.status).toBe(503)
}

/** The command reports the same and exits. */
async function expectNothingHandedOver(environment: Environment, { sentence }: BadState): Promise<void> {
  const { code, stdout, stderr } = await runCommand(['sync', '--enqueue'], environment)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toContain('No run was requested.')
  expect(stderr).toMatch(new RegExp(sentence.source.replace('^', '')))
  expect(stderr).not.toMatch(/\n {4}at |Unexpected|pw_5d1c/)
}

/** No other error is logged, and no library prints its own. */
function expectOneSentence(lines: readonly LogLine[], { sentence }: BadState): void {
  const errors = lines.filter(({ level }) => level === undefined || level === 'error')
  const isAboutTheJob = ({ msg }: LogLine) => /^This worker lost job/.test(msg)
  expect(errors.filter(line => !isAboutTheJob(line)).map(({ msg }) => msg)).toEqual([
    expect.stringMatching(sentence),
  ])
  expect(errors.filter(isAboutTheJob).length).toBeLessThanOrEqual(1)
  expect(lines.filter(({ msg }) => msg === 'Redis answers again.')).toHaveLength(1)
}

export type Authority = { readonly key: string; readonly certificate: string }

/** A self-signed certificate; with negative days it has expired. */
export async function makeAuthority({
  days = 2,
  name = 'IP:127.0.0.1',
}: {
  days?: number
  name?: string
} = {}): Promise<Authority> {
  const directory = await temporaryDirectory()
  const [key, request, certificate] = ['key', 'request', 'certificate'].map(file =>
    join(directory, `${file}.pem`),
  ) as [string, string, string]
  const openssl = promisify(execFile)
  await openssl('openssl', [
    ...['req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
    ...['-subj', '/CN=redis', '-addext', `subjectAltName=${name}`, '-keyout', key, '-out', request],
  ])
  await openssl('openssl', [
    ...['x509', '-req', '-in', request, '-signkey', key, '-days', String(days)],
    ...['-copy_extensions', 'copy', '-out', certificate],
  ])
  return { key, certificate }
}

/** Settings for a Redis that accepts only TLS. */
export function onlyTls({ key, certificate }: Authority, port: number): string[] {
  const ports = ['--port', '0', '--tls-port', String(port), '--tls-auth-clients', 'no']
  return [...ports, '--tls-cert-file', certificate, '--tls-key-file', key]
}

/** A Redis that accepts only TLS; its url still begins with redis://, for the proxy. */
export async function startTlsRedis(authority: Authority): Promise<OwnRedis> {
  return await startOwnRedis({ args: port => onlyTls(authority, port) })
}

/** A web server in place of Redis. */
export async function startWebServer(): Promise<string> {
  const server = createServer((_, response) => response.end('hello'))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`
}
