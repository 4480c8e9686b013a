import { writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { readState, writeState } from '#src/core/company/state.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'

const HOUR_MS = 3_600_000

/** A page of a person who has signed in; it keeps the cookies. */
async function visit({ environment }: SyncedCompany, now: () => Date = () => new Date()) {
  const { url, keys } = await serveApi(environment, { now })
  const cookies = new Map([['editais_chave', keys.acme as string]])
  const visits = `editais_visitas_${(keys.acme as string).slice(0, 12)}`
  return async (path = '/editais/hoje', visited?: string) => {
    if (visited !== undefined) cookies.set(visits, visited)
    const cookie = [...cookies].map(pair => pair.join('=')).join('; ')
    const answer = await fetch(url + path, { headers: { cookie } })
    for (const set of answer.headers.getSetCookie()) {
      const [name = '', value = ''] = (set.split(';')[0] as string).split('=')
      cookies.set(name, value)
    }
    return { status: answer.status, text: await answer.text() }
  }
}

/** The notices that a part of the page links to, in its order. */
function linkedIn(text: string, part: string): string[] {
  const [, section = ''] = text.split(`id="${part}"`)
  return [...(section.split('<h2')[0] ?? '').matchAll(/href="\/editais\/([^"?]+)"/g)].map(
    ([, id]) => id as string,
  )
}

const inDays = (days: number) => new Date(Date.now() + days * 24 * HOUR_MS).toISOString()

test('Hoje has what the marts have: decisions, the week’s sessions and last days, and what changed', async () => {
  const company = await startCompany(
    generateWorld({ seed: 7, company: 'acme', notices: 300, start: new Date() }),
  )
  await company.syncHere()
  const random = createRandom('hoje')
  for (let times = 0; times < 3; times += 1) tick(company.world, random, new Date())
  await company.syncHere()
  const open = await visit(company)
  const { text } = await open()
  const ids = async (sql: string) =>
    (await company.query<{ edital_id: string }>(sql)).map(row => row.edital_id)
  const decidedWhen = (when: string) =>
    ids(
      `FROM decisoes WHERE dias_ate_decidir ${when} ORDER BY decidir_ate, valor_estimado_informado DESC NULLS LAST, edital_id LIMIT 12`,
    )
  const decisions = [...(await decidedWhen('= 0')), ...(await decidedWhen('> 0'))]
  expect(decisions.length).toBeGreaterThan(2)
  expect(linkedIn(text, 'decidir')).toEqual(decisions)
  // Today's are apart, and each says what was recommended and how deep the analysis is.
  const [todays = '', others = ''] = (text.split('id="decidir"')[1] ?? '').split('<h3>Nos próximos dias</h3>')
  expect(todays).toContain('<h3>Hoje</h3>')
  expect(others).toContain('(em ')
  expect(todays).not.toMatch(/\(amanhã\)|\(em \d/)
  const stands = [
    ...text.matchAll(/<span>(?:parecer [^<]*|sem parecer)(?:, análise (?:Média|Profunda|Simples))?<\/span>/g),
  ]
  expect(stands).toHaveLength(decisions.length)
  expect(stands.join()).toContain(', análise ')
  const sessions = await ids('FROM agenda_sessoes WHERE dias_ate_sessao < 7')
  const alerts = await ids(
    "SELECT DISTINCT edital_id FROM alertas_juridicos WHERE em_andamento AND NOT oportunidade AND severity IN ('critical', 'high') AND dias_ate_prazo BETWEEN 0 AND 6",
  )
  expect(sessions.length).toBeGreaterThan(2)
  const agenda = linkedIn(text, 'agenda')
  expect(new Set([...sessions, ...alerts])).toEqual(agenda.length < 25 ? new Set(agenda) : expect.anything())
  const changed = await ids('FROM novidades WHERE observado_em > agora() - INTERVAL 1 DAY')
  expect(changed).toEqual(expect.arrayContaining(linkedIn(text, 'novidades')))
  expect(text).toContain('Novidades das últimas 24 horas')
  expect(linkedIn(text, 'novidades').length).toBeGreaterThan(2)

  const [dated] = await company.query<{ edital_id: string; dia: string }>(
    "SELECT edital_id, strftime(ultimo_dia_impugnacao, '%d/%m/%Y') AS dia FROM prazos_impugnacao WHERE dias_ate_impugnacao > 0 ORDER BY ALL",
  )
  expect((await open(`/editais/${dated?.edital_id}`)).text).toContain(
    `<dt>Impugnar até</dt><dd>${dated?.dia} <b>(`,
  )
  const [urgent] = await company.query<{ numero: string; reds: number; graves: number }>(
    `SELECT numero, requisitos_vermelhos AS reds, alertas_criticos + alertas_altos AS graves FROM edital_resumo
     WHERE analysis_state = 'current' AND requisitos_vermelhos > 1 AND graves > 1 ORDER BY ALL`,
  )
  const found = await open(`/editais?q=${encodeURIComponent(`"${urgent?.numero}"`)}`)
  expect(found.text).toContain(`${urgent?.reds} requisitos vermelhos<`)
  expect(found.text).toContain(`${urgent?.graves} alertas graves<`)
})

test('what changed is shown since the last visit, and texts of notices are only texts', async () => {
  const hostile = '<script>alert(1)</script>'
  const again = { objeto: 'Outro', valor_estimado: 5_000, data_sessao: inDays(4) }
  const company = await startCompany([
    noticeEntry(
      1,
      { objeto: hostile, status: 'ready', participation_confirmed: true, data_sessao: inDays(2) },
      {},
    ),
    ...[2, 3].map(number => noticeEntry(number, { ...again, numero: `${number}/2026` }, {})),
  ])
  await company.syncHere()
  let nowMs = Date.now()
  const open = await visit(company, () => new Date(nowMs))
  const first = await open()
  expect(first.text).toContain('Novidades das últimas 24 horas')
  expect(first.text).toContain('&lt;script&gt;alert(1)')
  expect(first.text).not.toContain(hostile)
  // The purchase was published again: in the agenda, and in the news.
  expect(first.text.match(/ · 2\/2026 · republicado no nº 3\/2026/g)?.length).toBeGreaterThan(1)
  // Others can set the cookie as well.
  for (const value of [
    '1e300.9e15.Infinity',
    '..',
    '-1.-1.-1',
    'x.y.z',
    `${nowMs + 1}.${nowMs + 1}.${nowMs + 1}`,
  ])
    expect(await open('/editais/hoje', value)).toMatchObject({ status: 200 })
  await open('/editais/hoje', '')
  // A reload is the same visit.
  nowMs += 60_000
  expect((await open()).text).toContain('Novidades das últimas 24 horas')
  nowMs += HOUR_MS
  const later = await open()
  expect(later.text).toContain('Novidades desde sua última visita')
  expect(later.text).toContain('Nada mudou.')
  expect(linkedIn(later.text, 'agenda')).toEqual([1, 2, 3].map(idOf))
})

test('every page says how old the data are, that the last run failed, and that nothing was read whole', async () => {
  const company = await startCompany([noticeEntry(1)])
  await company.syncHere()
  const paths = companyPaths(company.environment.DATA_DIR as string, 'acme')
  let nowMs = Date.now() + 12 * 60_000
  const open = await visit(company, () => new Date(nowMs))
  const pages = ['/editais/hoje', '/editais', `/editais/${idOf(1)}`, '/editais/none']
  const expectEverywhere = async (expected: string) => {
    for (const path of pages) expect((await open(path)).text, path).toContain(expected)
  }
  await expectEverywhere('Última leitura completa há 12 min')
  expect((await open('/editais')).text).not.toContain('class="problem')

  company.faults.plan = [{ fault: 'status', status: 500, kinds: ['list'] }]
  await expect(company.syncHere()).resolves.toMatchObject({ status: 'failed' })
  await expectEverywhere('A última execução falhou: os dados são de ')

  company.faults.plan = []
  company.world.update(idOf(1), { edital: { objeto: 'Outro objeto' }, updatedAt: new Date() })
  await company.syncHere()
  nowMs += 3 * 24 * HOUR_MS
  await expectEverywhere('Não há leitura completa há mais de 24 horas: os dados são de ')
  // What changed is counted back from that reading, not from now.
  const { text } = await open('/editais/hoje', '')
  expect(text).toContain('Novidades das 24 horas até a última leitura da lista')
  expect(text).toMatch(/Até a última leitura da lista, [^<]*: o que mudou depois não se sabe\./)
  expect(linkedIn(text, 'novidades')).toEqual([idOf(1)])
  const state = await readState(paths)
  if (state === null) throw new Error('There is no state.')
  await writeState(paths, { ...state, last_good_at: null })
  await writeFile(paths.look, '')
  await expectEverywhere('Ainda não houve uma leitura completa')
})
