import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import type { RemoteState } from '#src/extras/object_store/state.ts'
import { DAEMON_TEST, killProcess, startDaemon, until } from '#test/support/daemon.ts'
import { nextRun, OFTEN, redisSettings } from '#test/support/daemon_runs.ts'
import { companyDirectory, runCommand } from '#test/support/project.ts'
import { latestLocal, latestOf, startRemote } from '#test/support/remote_lake.ts'
import type { LogLine } from '#tools/service_process.ts'

vi.setConfig(DAEMON_TEST)

test('a publish to the object store holds up no run, keeps what it reads, and is finished if it dies', async () => {
  const { s3, world, lake, ...remote } = await startRemote({ SYNC_CRON: OFTEN, SNAPSHOT_KEEP: '0s' })
  const environment = { ...remote.environment, ...(await redisSettings()) }
  const opened = Promise.withResolvers<void>()
  let waiting = 0
  s3.gate = async ({ method }) => {
    if (method !== 'PUT') return
    waiting += 1
    await opened.promise
  }
  const daemon = await startDaemon(environment)
  await nextRun(daemon, 'acme', 0)
  await until(() => waiting > 0, { what: 'an upload' })
  const first = await latestLocal(environment)

  // The store hangs; a change is in the warehouse nevertheless.
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  // A run may have read the list before it.
  const isChanged = ({ msg, changed }: LogLine) => msg === 'run finished' && changed === 1
  expect(await daemon.waitFor(isChanged)).toMatchObject({ status: 'ok' })
  const second = await latestLocal(environment)
  expect(second).not.toBe(first)
  const company = companyDirectory(environment)
  expect(existsSync(join(company, 'lake/snapshots', first, 'manifest.json'))).toBe(true)
  expect((await runCommand(['status'], environment)).stdout).toMatch(
    new RegExp(`^Store {5}has nothing yet\\n {10}gets ${first} since `, 'm'),
  )
  const holder = JSON.parse(await readFile(join(company, 'remote.lock.holder.json'), 'utf8'))
  expect(holder).toMatchObject({ what: 'publish of the worker' })

  await killProcess(holder.pid)
  opened.resolve()
  await until(() => s3.objects.has('bi/acme/lake/latest.json') && latestOf(s3).snapshot === second, {
    what: 'the second snapshot in the store',
  })
  expect(await lake('verify')).toMatchObject({ code: 0 })
  const state = () =>
    readFile(join(company, 'remote.json'), 'utf8').then(text => JSON.parse(text) as RemoteState)
  await until(async () => (await state()).snapshot === second, { what: 'its end' })
  expect(await state()).toMatchObject({ reading: null, pending: null, error: null })
  expect(await daemon.stop()).toBe(0)
})
