import { expect, test, vi } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER, redisSettings, runsOf } from '#test/support/daemon_runs.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { runShared } from '#test/support/shared.ts'

vi.setConfig(DAEMON_TEST)

const PATH = '/api/v1/editais'

test('the daemon answers as the API does, each company from its own newest snapshot', async () => {
  const companies = await startCompanies(['acme', 'boreal'], slug => [
    noticeEntry(1, { objeto: `of ${slug}` }),
  ])
  await companies.configure({ acme: { sync_cron: NEVER }, boreal: { sync_cron: NEVER } })
  const environment = { ...companies.environment, ...(await redisSettings()) }
  const daemon = await startDaemon(environment)
  await until(() => ['acme', 'boreal'].every(slug => runsOf(daemon, slug).length > 0), {
    what: 'a run of each',
  })
  for (const slug of ['acme', 'boreal']) {
    const created = await runShared(
      ['keys', 'create', '--company', slug, '--description', 'ERP'],
      environment,
    )
    const headers = { 'x-api-key': created.stdout.trim() }
    // The admin's token in place of the key would be refused.
    const ask = (path: string) => fetch(`${daemon.url}${path}`, { headers })
    await until(async () => (await ask(PATH)).status === 200, { what: `the snapshot of ${slug}` })
    expect(await (await ask(PATH)).json()).toMatchObject({ total: 1, editais: [{ objeto: `of ${slug}` }] })
    expect((await ask(`${PATH}/nobody`)).status).toBe(404)
    if (slug === 'acme') continue
    const revoked = await runShared(['keys', 'revoke', created.stdout.trim()], environment)
    expect(revoked).toMatchObject({ code: 0 })
    expect((await ask(PATH)).status).toBe(401)
    await daemon.waitFor(({ msg, company }) => company === slug && msg.startsWith('No longer served'))
  }
  expect((await daemon.ask(PATH)).status).toBe(401)
  expect((await daemon.ask('/openapi.json')).status).toBe(200)
  expect(await (await daemon.ask('/report')).text()).toContain('acme')
  expect(await daemon.stop()).toBe(0)
})
