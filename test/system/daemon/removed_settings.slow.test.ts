import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon } from '#test/support/daemon.ts'
import { NEVER, redisSettings } from '#test/support/daemon_runs.ts'
import { runCommand, temporaryDirectory } from '#test/support/project.ts'

vi.setConfig(DAEMON_TEST)

test('removed settings are warned about: once by a worker, also when the file changes, and by commands', async () => {
  const directory = await temporaryDirectory()
  const file = join(directory, 'companies.yaml')
  const entry = 'api_base_url: "http://127.0.0.1:9", api_key_file: /none, api_retries: 0'
  await writeFile(file, `companies:\n  acme: { ${entry} }\n`)
  const environment = {
    ...(await redisSettings()),
    COMPANIES_FILE: file,
    DATA_DIR: directory,
    SYNC_CRON: NEVER,
    HTTP_MAX_CONNECTIONS: '7',
  }
  const limit =
    'HTTP_MAX_CONNECTIONS is no longer a setting: a server accepts 2000 connections. Remove HTTP_MAX_CONNECTIONS.'
  const zone = `${file}: acme: sync_timezone is no longer a setting: schedules are in SOURCE_TIMEZONE, as all local times of a company. Remove sync_timezone.`
  const daemon = await startDaemon(environment)
  await daemon.waitFor(({ msg }) => msg === limit)
  await writeFile(file, `companies:\n  acme: { ${entry}, sync_timezone: UTC }\n`)
  await daemon.waitFor(({ msg }) => msg === zone)
  expect(await daemon.stop()).toBe(0)
  expect(daemon.lines.filter(({ msg }) => /no longer a setting/.test(msg))).toMatchObject([
    { level: 'warn', msg: limit },
    { level: 'warn', msg: zone },
  ])

  for (const args of [
    ['status', '--all'],
    ['doctor', '--company', 'acme'],
    ['query', '--all', 'SELECT 1'],
  ]) {
    const { stderr } = await runCommand(args, environment)
    expect(stderr.startsWith(`${limit}\n${zone}\n`), `${args}: ${stderr}`).toBe(true)
  }
})
