import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon } from '#test/support/daemon.ts'
import { startAcme } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { childrenOf, isRunning } from '#tools/proc.ts'

vi.setConfig(DAEMON_TEST)

const PROJECT = join(import.meta.dirname, '../../..')
const UNIT = readFileSync(join(PROJECT, 'deploy/systemd/editais-sync.service'), 'utf8')
const INSTALLED = '/opt/editais-sync'
const [, startedByUnit = ''] = /^ExecStart=(.*)$/m.exec(UNIT) ?? []

test.each([
  ['npm start', ['npm', 'start', '--silent', '--prefix', PROJECT]],
  [
    'the unit of systemd',
    startedByUnit.replace(INSTALLED, PROJECT).replace(' jobs/', ` ${PROJECT}/jobs/`).split(' '),
  ],
])('SIGTERM to what %s starts ends the daemon', async (_, command) => {
  const { environment } = await startAcme(notices(1, 3))
  const started = await startDaemon(environment, { command })
  const [daemon = 0] = [...childrenOf(started.pid), started.pid]
  await started.stop()
  await vi.waitFor(() => expect(isRunning(daemon)).toBe(false), 10_000)
  expect(started.lines.at(-1)?.msg).toBe('Stopped.')
})

test('the unit of systemd is valid, and closed to what a daemon does not need (where systemd is)', async context => {
  const directory = await temporaryDirectory()
  const unit = join(directory, 'editais-sync.service')
  await writeFile(unit, UNIT.replaceAll(INSTALLED, PROJECT))
  const analyze = async (...args: string[]) => await promisify(execFile)('systemd-analyze', [...args, unit])
  const verified = await analyze('verify').catch((error: NodeJS.ErrnoException) => error)
  if (verified instanceof Error && verified.code === 'ENOENT') return context.skip()
  expect(verified).toMatchObject({ stderr: '' })
  // From 0, nothing is exposed, to 10.
  const { stdout } = await analyze('security', '--offline=true', '--no-pager')
  expect(Number(/exposure level[^:]*: ([\d.]+)/.exec(stdout)?.[1])).toBeLessThan(2.5)
})
