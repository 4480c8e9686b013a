import { rm } from 'node:fs/promises'
import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, killProcess, startDaemon, until } from '#test/support/daemon.ts'
import { nextRun, OFTEN, startAcme } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { anotherHost, LOG, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { expectTruth } from '#test/support/truth.ts'
import type { S3Request } from '#tools/s3_server.ts'

vi.setConfig(DAEMON_TEST)

test('a worker takes a company over from a lost host, with an empty disk, and each knows how the others ended', async () => {
  const { s3, settings } = await startSharedLog()
  const { company, environment } = await startAcme(notices(1, 60), settings)
  const held = holdAfter(company.sandbox, 'analysis', { passing: 30 })
  const lost = await startDaemon(environment)
  await held.reached
  const runs = lost.runs()
  // Otherwise a run that loses its worker could still seal what it has.
  for (const run of runs) process.kill(run, 'SIGSTOP')
  await lost.kill()
  for (const run of runs) await killProcess(run)
  await rm(environment.DATA_DIR ?? '', { recursive: true })
  held.release()

  const other = await anotherHost({ ...company, environment })
  const second = await startDaemon(other.environment)
  await second.waitFor(({ msg }) => /^The raw log of acme is held by sync of the worker /.test(msg))
  // The store's clock: the lost host has been silent for long.
  s3.now = () => new Date(Date.now() + 60_000)
  expect(await nextRun(second, 'acme', 0)).toMatchObject({ status: 'ok', listed: 60, loaded: 60 })
  await expectTruth(other)

  // A host that never ran the company knows from Redis that it is well.
  const third = await startDaemon((await anotherHost(other)).environment)
  await until(async () => (await third.ask('/readyz')).ok, { what: 'a ready worker' })
  const metrics = async () => await (await third.ask('/metrics')).text()
  expect(await metrics()).toContain('editais_without_good_run{company="acme"} 0')
  expect(await second.stop()).toBe(0)
  expect(await third.stop()).toBe(0)

  company.world.update(company.world.ids()[0] as string, { edital: { objeto: 'Outro objeto' } })
  const { S3_CREDENTIALS_FILE: _, ...rest } = (await anotherHost(other)).environment
  // Its runs find their key where the AWS SDK always looks.
  const often = {
    ...rest,
    SYNC_CRON: OFTEN,
    AWS_ACCESS_KEY_ID: 'ofTheEnvironment',
    AWS_SECRET_ACCESS_KEY: 'secret',
  }
  const fourth = await startDaemon(often)
  expect(await nextRun(fourth, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 1, unchanged: 59 })
  const isSeal = ({ method, key }: S3Request) => method === 'PUT' && key.startsWith(LOG)
  expect(s3.requests.findLast(isSeal)?.keyId).toBe('ofTheEnvironment')
  expect(await fourth.stop()).toBe(0)
})
