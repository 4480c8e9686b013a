import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { lookHere } from '#test/support/look.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { readPage, serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

test('a look takes the same times in another spelling for what the last run saw', async () => {
  const company = await startSynced(notices(1, 30))
  for (const id of company.world.ids()) {
    const { created_at, updated_at } = company.world.entry(id)?.edital ?? {}
    const edital = {
      created_at: String(created_at).replace('.000Z', '+00:00'),
      updated_at: String(updated_at).replace('T', ' ').replace('Z', '000z'),
    }
    company.world.update(id, { edital })
  }
  expect(await lookHere(company.environment)).toMatchObject({ isNew: false })
  expect(await company.syncHere()).toMatchObject({ unchanged: 30, requests: 1 })
})

test('pages and searches have local times of the company, whatever zones the process and the server have', async () => {
  const company = await startCompany(
    [
      noticeEntry(1, { data_sessao: '2027-03-10 09:00:00', committed_at: '2027-03-01' }),
      noticeEntry(2, { data_sessao: '2027-03-10T03:59:00Z', committed_at: '0001-01-01T00:00:00Z' }),
    ],
    { SOURCE_TIMEZONE: 'America/Manaus' },
  )
  await company.syncHere()
  const before = process.env.TZ
  process.env.TZ = 'Asia/Tokyo'
  onTestFinished(() => {
    if (before === undefined) delete process.env.TZ
    else process.env.TZ = before
  })
  expect(new Date(0).getTimezoneOffset()).toBe(-540)
  const api = await serveApi(company.environment)
  const list = await readPage(api, '/editais?ver=todos')
  expect(list).toContain('Sessão: 10/03/2027 às 09:00 <')
  expect(list).toContain('Sessão: 09/03/2027 às 23:59 <')
  const page = await readPage(api, `/editais/${idOf(1)}`)
  expect(page).toContain('<dt>Sessão</dt><dd>10/03/2027 às 09:00 <b>(em ')
  expect(page).toContain('<dt>Confirmada em</dt><dd>01/03/2027</dd>')
  expect(await readPage(api, `/editais/${idOf(2)}`)).toContain('<dt>Confirmada em</dt><dd>–</dd>')
  const found = async (query: string) => {
    const { editais } = await api.json<{ editais: { id: string }[] }>(`/api/v1/mirror/editais?${query}`)
    return editais.map(({ id }) => id)
  }
  expect(await found('session_from=2027-03-10')).toEqual([idOf(1)])
  expect(await found('session_to=2027-03-09')).toEqual([idOf(2)])
  expect(await found('session_from=2027-03-10T13:00:00Z&session_to=2027-03-10')).toEqual([idOf(1)])

  const report = join(await temporaryDirectory(), 'report.html')
  await runShared(['report', '--output', report], company.environment)
  expect(await readFile(report, 'utf8')).toContain(', horário de America/Manaus.')
})
