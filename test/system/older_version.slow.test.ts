import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { SCHEMA_VERSION } from '#src/core/warehouse/schema.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { failedJobs, NEVER, NO_LOOKS, redisSettings, requestSync } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { patchedCopy, runIn } from '#test/support/patched_copy.ts'
import { companyDirectory, filesBelow, runCommand } from '#test/support/project.ts'
import { startCompany } from '#test/support/synced.ts'

vi.setConfig(DAEMON_TEST)

/** The next version, with another column. */
const NEWER = [
  {
    file: 'schema/notice.ts',
    from: '  numero: {',
    to: `  dias: {
    type: 'integer',
    since: ${SCHEMA_VERSION + 1},
    description: 'Days left',
    portuguese: ['Dias', 'Dias que restam'],
  },
  numero: {`,
  },
]

test("an older version leaves a newer version's warehouse alone, until an explicit rebuild", async () => {
  const company = await startCompany(notices(1, 6), { SYNC_CRON: NEVER })
  const { environment } = company
  await company.sync()
  const newer = await patchedCopy(NEWER)
  // The newer version converts the existing warehouse.
  expect(await runIn(newer, ['sync'], environment)).toMatchObject({ code: 0 })
  const path = join(companyDirectory(environment), 'warehouse.duckdb')
  const before = (await filesBelow(companyDirectory(environment))).get(path)
  const sentence = `${path} was made by a newer version of editais-sync (its tables are version ${SCHEMA_VERSION + 1}, this program's are ${SCHEMA_VERSION}). Nothing was changed.`
  for (const args of [['sync'], ['sync', '--plan'], ['publish'], ['replay']]) {
    const { code, stderr } = await runCommand(args, environment)
    expect({ args, code }).toEqual({ args, code: 1 })
    expect(stderr).toContain(sentence)
    expect(stderr).toContain('`editais rebuild --company acme`')
  }
  expect((await runCommand(['doctor'], environment)).stdout).toContain('was built by a newer version')

  // A worker of the older version hands the run on, and reports it if no other worker takes it.
  const worker = await startDaemon({ ...environment, ...(await redisSettings()) })
  await requestSync(worker, 'acme')
  const isRefusal = ({ msg }: { msg: string }) => msg.startsWith(sentence)
  await until(async () => (await failedJobs(worker)).length > 0, { what: 'the failed job' })
  expect(worker.lines.filter(line => isRefusal(line) && line.level === 'warn')).toHaveLength(11)
  expect(await failedJobs(worker)).toEqual([expect.stringContaining(sentence)])
  expect((await runCommand(['status'], environment)).stdout).toContain(sentence)
  expect(await worker.stop()).toBe(0)
  expect((await filesBelow(companyDirectory(environment))).get(path)).toEqual(before)

  expect(await runCommand(['rebuild', '--company', 'acme'], environment)).toMatchObject({ code: 0 })
  expect(await company.sync()).toMatchObject({ status: 'ok', unchanged: 6 })
  expect((await runCommand(['status'], environment)).stdout).not.toContain(sentence)
})

test('in a rolling deploy the newer worker runs what the older one hands on, without an alert', async () => {
  const company = await startCompany(notices(1, 6), { SYNC_CRON: '*/3 * * * * *', ...NO_LOOKS })
  const { environment } = company
  const newer = await patchedCopy(NEWER)
  expect(await runIn(newer, ['sync'], environment)).toMatchObject({ code: 0 })
  const around = { ...environment, ...(await redisSettings()) }
  const old = await startDaemon(around)
  await old.waitFor(({ msg }) => msg.includes('was made by a newer version'))
  const young = await startDaemon(around, { command: [process.execPath, join(newer, 'jobs/main.ts')] })
  const first = await young.waitFor(({ msg }) => msg === 'run finished')
  expect(first).toMatchObject({ status: 'ok', unchanged: 6 })
  expect(old.lines.filter(({ msg }) => msg === 'run finished')).toEqual([])
})
