import { readXlsx } from 'hucre/xlsx'
import { expect, test } from 'vitest'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

/** Once, so that no minute passes between a notice and what is expected of it. */
const SESSION = inDays(12)

const HOSTILE = '=HYPERLINK("http://x";"a");\r\nBEGIN:VEVENT'
const NOTICES = [
  noticeEntry(1, {
    ...{ numero: '12/2026', uf: 'SP', status: 'pricing', data_sessao: SESSION, valor_estimado: 1234.5 },
    objeto: `Aquisição de papel; ${'muito longo '.repeat(20)}`,
  }),
  noticeEntry(2, { uf: 'BA', status: 'pricing', data_sessao: inDays(20), objeto: HOSTILE, orgao: HOSTILE }),
  noticeEntry(3, { uf: 'SP', status: 'discarded', data_sessao: inDays(12) }),
]

async function serveFiles(notices = NOTICES, settings = {}) {
  const { environment } = await startSynced(notices, settings)
  const { url, keys, lines } = await serveApi(environment)
  const create = async (scopes: string) =>
    (await runShared(['keys', 'create', '--description', 'a', '--scopes', scopes], environment)).stdout.trim()
  const get = async (path: string, key?: string) => {
    const headers = key === undefined ? {} : { cookie: `editais_chave=${key}` }
    const answer = await fetch(url + path, { headers, redirect: 'manual' })
    const bytes = Buffer.from(await answer.arrayBuffer())
    const { status } = answer
    return { status, type: answer.headers.get('content-type'), bytes, text: bytes.toString() }
  }
  return { get, create, key: keys.acme as string, lines, url }
}

/** The lines of a calendar, unfolded. */
const linesOf = (calendar: string) => calendar.replaceAll('\r\n ', '').split('\r\n')

test('a search can be kept as a calendar, whose address has a key that reads nothing else', async () => {
  const { get, create, key, lines, url } = await serveFiles()
  const calendar = await create('calendar')
  const { status, type, text } = await get(`/editais/calendario.ics?chave=${calendar}&uf=SP&fase=pricing`)
  expect({ status, type }).toEqual({ status: 200, type: 'text/calendar; charset=utf-8' })
  const all = linesOf(text)
  const named = all.filter(line => line.startsWith('SUMMARY')).map(line => line.slice('SUMMARY:'.length))
  expect(named.toSorted()).toEqual([
    expect.stringContaining('Sessão: 12/2026'),
    expect.stringContaining('Último dia para impugnar: 12/2026'),
    expect.stringContaining('Último dia para pedir esclarecimento: 12/2026'),
  ])
  // No line is longer than the form allows, and each event leads to its page.
  expect(text.split('\r\n').every(line => Buffer.byteLength(line) <= 75)).toBe(true)
  expect(all.filter(line => line.includes(`${url}/editais/${idOf(1)}`))).toHaveLength(3)
  const session = /DTSTART:(\d{8}T\d{6}Z)/.exec(text)?.[1]
  expect(session).toBe(`${SESSION.replace(/[-:]|\.\d+/g, '').slice(0, 13)}${session?.slice(13)}`)

  // Without a filter: the sessions to come. A text of a notice opens no event of its own.
  const whole = await get(`/editais/calendario.ics?chave=${calendar}`)
  expect(linesOf(whole.text).filter(line => line === 'BEGIN:VEVENT')).toHaveLength(6)

  expect((await get('/editais/calendario.ics?chave=edk_wrong')).status).toBe(401)
  for (const scopes of ['read', 'read,calendar'])
    expect((await get(`/editais/calendario.ics?chave=${await create(scopes)}`)).status, scopes).toBe(403)
  for (const path of ['/editais', '/editais/hoje', '/editais/lista.csv', `/editais/${idOf(1)}`])
    expect((await get(path, calendar)).status, path).toBe(401)
  const asProgram = await fetch(`${url}/api/v1/editais`, { headers: { 'x-api-key': calendar } })
  expect(asProgram.status).toBe(403)
  expect((await get(`/editais/calendario.ics?fase=xyz&chave=${calendar}`)).status).toBe(400)
  expect((await get('/editais/calendario.ics', key)).status).toBe(200)
  expect(lines.join('')).not.toContain(calendar)
})

test('a session in an hour that is there twice, at the end of summer time, begins at its own instant', async () => {
  const zone = 'America/New_York'
  let end = Temporal.Now.zonedDateTimeISO(zone)
  do end = end.getTimeZoneTransition('next') as Temporal.ZonedDateTime
  while (end.subtract({ nanoseconds: 1 }).offsetNanoseconds < end.offsetNanoseconds)
  // Both at 01:30, with summer time and without.
  const instants = [end.subtract({ minutes: 30 }), end.add({ minutes: 30 })].map(at =>
    at.toInstant().toString(),
  )
  const notices = instants.map((data_sessao, index) => noticeEntry(index + 1, { data_sessao }))
  const { get, create } = await serveFiles(notices, { SOURCE_TIMEZONE: zone })
  const { text } = await get(`/editais/calendario.ics?chave=${await create('calendar')}`)
  const starts = linesOf(text).filter(line => line.startsWith('DTSTART:'))
  expect(starts.toSorted()).toEqual(instants.map(at => `DTSTART:${at.replaceAll(/[-:]/g, '')}`))
})

test('a search can be kept as a table, in which texts of strangers are texts', async () => {
  const { get, key } = await serveFiles()
  const { status, type, text } = await get('/editais/lista.csv?fase=pricing&ordem=session', key)
  expect({ status, type }).toEqual({ status: 200, type: 'text/csv; charset=utf-8' })
  const [head = '', first = '', second = '', ...rest] = text.split('\r\n')
  expect(head.startsWith('\uFEFFNúmero;Órgão;UF;')).toBe(true)
  expect(first).toContain('"=""12/2026""";')
  expect(first).toContain(';1234,50;')
  expect(first).toContain(`/editais/${idOf(1)}`)
  // A formula is kept as text, and a line break does not start a row.
  expect(second).toContain(`"'=HYPERLINK(""http://x"";""a""); BEGIN:VEVENT"`)
  expect(rest).toEqual([''])
  expect((await get('/editais/lista.csv')).status).toBe(401)
  expect((await get('/editais/lista.csv?fase=xyz', key)).status).toBe(400)
  expect((await get('/editais?fase=pricing', key)).text).toContain('href="/editais/lista.csv?fase=pricing"')

  const { sheets } = await readXlsx((await get('/editais/lista.xlsx?fase=pricing&ordem=session', key)).bytes)
  const [titles = [], paper = [], hostile = []] = sheets[0]?.rows ?? []
  const of = (row: readonly unknown[], title: string) => row[titles.indexOf(title)]
  expect(of(paper, 'Número')).toBe('12/2026')
  expect(of(paper, 'Valor estimado')).toBe(1234.5)
  expect(of(paper, 'Sessão')).toBeInstanceOf(Date)
  expect(of(hostile, 'Objeto')).toBe('=HYPERLINK("http://x";"a"); BEGIN:VEVENT')
})
