import { join } from 'node:path'
import { expect, test } from 'vitest'
import { VIEWS } from '#schema/marts/marts.ts'
import { readCard } from '#src/present/metabase/cards.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { startCompanies } from '#test/support/companies.ts'
import { type ContractField, fieldsBelow, isMoment } from '#test/support/contract_tables.ts'
import { healthyNotice } from '#test/support/healthy.ts'
import { syncHere } from '#test/support/here.ts'
import { dayIn } from '#test/support/local_day.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

/** Noon in São Paulo, this many local days from now. */
function noonIn(days: number): string {
  return `${dayIn(days)}T12:00:00-03:00`
}

test('each mart has its documented columns and types, even without notices', async () => {
  for (const company of [await startSynced(notices(1, 12)), await startSynced([])]) {
    const columnsOf = await company.query<{ view: string; columns: string[] }>(
      `SELECT table_name AS view, list(column_name || ' ' || data_type ORDER BY column_index) AS columns
       FROM duckdb_columns() WHERE NOT internal GROUP BY ALL`,
    )
    for (const { name, columns } of VIEWS) {
      expect(columnsOf.find(({ view }) => view === name)?.columns, name).toEqual(
        columns.map(
          column => `${column.name} ${column.type.replace('TIMESTAMPTZ', 'TIMESTAMP WITH TIME ZONE')}`,
        ),
      )
    }
    // Computes every column of every row.
    await company.query(
      `SELECT ${VIEWS.map(({ name }) => `(SELECT max(hash(m)) FROM "${name}" m) AS "${name}"`).join(', ')}`,
    )
  }
})

test('a value of 0 means unknown, and implausible values are suspect', async () => {
  const values = [0, 0.01, 99999999.99, 9999999999999.99, 2e11, -5, 1250.5, 999999.99, null]
  const company = await startSynced(
    values.map((valor_estimado, index) =>
      noticeEntry(index + 1, { valor_estimado: valor_estimado ?? undefined }),
    ),
  )
  expect(
    await company.query(
      `SELECT valor_estimado, valor_estimado_informado AS informado, valor_suspeito AS suspeito
       FROM editais_ativos ORDER BY edital_id`,
    ),
  ).toEqual([
    { valor_estimado: 0, informado: null, suspeito: false },
    { valor_estimado: 0.01, informado: null, suspeito: true },
    { valor_estimado: 99999999.99, informado: null, suspeito: true },
    { valor_estimado: 9999999999999.99, informado: null, suspeito: true },
    { valor_estimado: 2e11, informado: null, suspeito: true },
    { valor_estimado: -5, informado: null, suspeito: true },
    { valor_estimado: 1250.5, informado: 1250.5, suspeito: false },
    { valor_estimado: 999999.99, informado: 999999.99, suspeito: false },
    { valor_estimado: null, informado: null, suspeito: false },
  ])
})

test('values of items are judged like those of notices, and a state is one state however it is written', async () => {
  const values = [0, 0.01, 99999999.99, 9999999999999.99, 2e11, -5, 1250.5, 0.99, null, 100]
  const items = values.map((valor_total, index) => ({
    numero_item: index + 1,
    descricao: 'Item',
    valor_total,
    ai_selected: valor_total !== 100,
  }))
  const company = await startSynced([
    noticeEntry(1, { uf: ' RJ ' }, { items }),
    noticeEntry(2, { uf: '\u00a0rj\t' }),
    noticeEntry(3, { uf: 'RJ' }),
    noticeEntry(4, { uf: '  ' }),
  ])
  expect(
    await company.query(
      `SELECT itens_valor_total AS itens, itens_selecionados_valor AS selecionados, itens_sem_valor AS sem_valor
       FROM edital_resumo WHERE edital_id = '${idOf(1)}'`,
    ),
  ).toEqual([{ itens: 1350.5, selecionados: 1250.5, sem_valor: 8 }])
  expect(
    await company.query(
      'SELECT valor_total AS total, valor_total_informado AS informado, valor_total_suspeito AS suspeito FROM itens_selecionados ORDER BY ordinal',
    ),
  ).toEqual(
    values
      .filter(total => total !== 100)
      .map(total => ({
        total,
        informado: total === 1250.5 ? total : null,
        suspeito: total !== 1250.5 && total !== 0 && total !== null,
      })),
  )
  expect(await company.query('SELECT uf, editais FROM valor_por_uf ORDER BY editais DESC')).toEqual([
    { uf: 'RJ', editais: 3 },
    { uf: 'não informada', editais: 1 },
  ])
  expect(await company.query(`SELECT count(*) AS n FROM alertas_juridicos WHERE uf = 'RJ'`)).toEqual([
    { n: 3 },
  ])
})

test('the last day to contest is the third business day before the session, without weekends and holidays', async () => {
  const days = [
    // November 20th, here a Friday, is a holiday since 2024.
    ['2026-11-24', '2026-11-18'],
    ['2023-11-24', '2023-11-21'],
    // A Thursday; a Monday; a Sunday, which counts like the Monday after it.
    ['2026-11-19', '2026-11-16'],
    ['2026-11-16', '2026-11-11'],
    ['2026-11-15', '2026-11-11'],
    // Good Friday of 2026 is April 3rd, Tiradentes the 21st.
    ['2026-04-07', '2026-04-01'],
    ['2026-04-22', '2026-04-16'],
    // Across the turn of the year: New Year's Day is a Friday, and offices may be closed on the day before it.
    ['2027-01-05', '2026-12-29'],
  ]
  const company = await startSynced(
    days.map(([day], index) => noticeEntry(index + 1, { data_sessao: `${day}T09:00:00` })),
  )
  expect(
    await company.query(
      `SELECT data_sessao_dia::VARCHAR AS day, ultimo_dia_impugnacao::VARCHAR AS last
       FROM edital_resumo ORDER BY edital_id`,
    ),
  ).toEqual(days.map(([day, last]) => ({ day, last })))
  // Good Fridays from calendars.
  expect(
    await company.query(
      `SELECT dia::VARCHAR AS dia FROM calendario WHERE feriado = 'Paixão de Cristo' AND year(dia) BETWEEN 2019 AND 2030 ORDER BY dia`,
    ),
  ).toEqual(
    [
      ...['2019-04-19', '2020-04-10', '2021-04-02', '2022-04-15', '2023-04-07', '2024-03-29'],
      ...['2025-04-18', '2026-04-03', '2027-03-26', '2028-04-14', '2029-03-30', '2030-04-19'],
    ].map(dia => ({ dia })),
  )
})

test('the last day to contest is what the notice states, else by the law that it names, and the rule is shown', async () => {
  // The session is on a Tuesday; the Friday before it is a holiday.
  const session = '2026-11-24T09:00:00'
  const presumed = 'Lei 14.133/2021, art. 164 (presumida): 3 dias úteis'
  const cases: readonly (readonly [text: string | null, law: string | null, last: string, rule: string])[] = [
    // What contradicts the law that the notice names is shown with it, and the earlier day counts.
    [
      '3 dias úteis',
      'Lei 13.303/2016',
      '2026-11-16',
      'Lei 13.303/2016, art. 87: 5 dias úteis; Edital: 3 dias úteis',
    ],
    [
      'até 5 dias úteis',
      'Lei 14.133/2021',
      '2026-11-16',
      'Edital: 5 dias úteis; Lei 14.133/2021, art. 164: 3 dias úteis',
    ],
    ['05\u00a0(cinco)  DIAS ÚTEIS', null, '2026-11-16', 'Edital: 5 dias úteis'],
    ['Até o 3º (terceiro) dia útil anterior', null, '2026-11-18', 'Edital: 3 dias úteis'],
    ['um dia útil', null, '2026-11-23', 'Edital: 1 dia útil'],
    ['5 dias', null, '2026-11-16', 'Edital: 5 dias, contados como úteis; Edital: 5 dias corridos'],
    ['5 dias corridos', null, '2026-11-19', 'Edital: 5 dias corridos'],
    ['48 horas antes da sessão', null, '2026-11-22', 'Edital: 48 horas'],
    ['até as 18h do dia 17/11/2026', null, '2026-11-17', 'Edital: 17/11/2026'],
    ['de 02.11.2026 a 17.11.2026', null, '2026-11-17', 'Edital: 17/11/2026'],
    ['17/11/26', null, '2026-11-17', 'Edital: 17/11/2026'],
    ['Até 1º de novembro de 2026', null, '2026-11-01', 'Edital: 01/11/2026'],
    ['2026-11-17T23:59', null, '2026-11-17', 'Edital: 17/11/2026'],
    // The day of the session, of the publication, and one that does not exist.
    ['3 dias úteis antes de 24/11/2026', null, '2026-11-18', 'Edital: 3 dias úteis'],
    ['publicado em 01/10/2026; 5 dias úteis', null, '2026-11-16', 'Edital: 5 dias úteis'],
    ['31/02/2026', null, '2026-11-18', presumed],
    // The day of the publication is unknown.
    [
      '10 dias úteis após a publicação',
      'Lei 8.666/93',
      '2026-11-19',
      'Lei 8.666/1993, art. 41: 2 dias úteis',
    ],
    ['Não consta', 'Lei nº 13.303, de 2016', '2026-11-16', 'Lei 13.303/2016, art. 87: 5 dias úteis'],
    [null, 'Lei 14.133/2021, Art. 28, I', '2026-11-18', 'Lei 14.133/2021, art. 164: 3 dias úteis'],
    [null, 'Lei 10.520/2002', '2026-11-18', 'Decreto 10.024/2019, art. 24: 3 dias úteis'],
    [null, 'Lei 14.981/2024', '2026-11-18', presumed],
    ['999 dias úteis', null, '2026-11-18', presumed],
    ['5 d.u.', null, '2026-11-16', 'Edital: 5 dias úteis'],
    ['05 (cinco) DU antes da abertura', null, '2026-11-16', 'Edital: 5 dias úteis'],
    // The law that this text names, if it is not named elsewhere.
    ['Conforme art. 87 da Lei 13.303/2016', null, '2026-11-16', 'Lei 13.303/2016, art. 87: 5 dias úteis'],
    ['Art. 164 da Lei 14133', 'Lei Federal', '2026-11-18', 'Lei 14.133/2021, art. 164: 3 dias úteis'],
    [
      'Art. 87 da Lei 13.303/2016',
      'Lei 14.133/2021',
      '2026-11-16',
      'Lei 13.303/2016, art. 87: 5 dias úteis; Lei 14.133/2021, art. 164: 3 dias úteis',
    ],
  ]
  const alerts = [{ type: 'risk', severity: 'high', title: 'Prazo', action_type: 'impugnacao' }]
  const company = await startSynced(
    cases.map(([prazo_impugnacao, lei_aplicavel], index) =>
      noticeEntry(
        index + 1,
        { data_sessao: session },
        { overview: { prazo_impugnacao, lei_aplicavel }, alerts },
      ),
    ),
  )
  const expected = cases.map(([, , last, rule]) => ({ last, rule }))
  expect(
    await company.query(
      `SELECT ultimo_dia_impugnacao::VARCHAR AS last, regra_impugnacao AS rule FROM edital_resumo ORDER BY edital_id`,
    ),
  ).toEqual(expected)
  expect(
    await company.query(
      'SELECT prazo::VARCHAR AS last, regra_prazo AS rule FROM alertas_juridicos ORDER BY edital_id',
    ),
  ).toEqual(expected)
})

test('a session late in the evening is on its local day, not on its day in UTC', async () => {
  const company = await startSynced([noticeEntry(1, { data_sessao: '2026-12-02T01:30:00Z' })])
  expect(
    await company.query(
      'SELECT data_sessao_local::VARCHAR AS local, data_sessao_dia::VARCHAR AS dia FROM editais_ativos',
    ),
  ).toEqual([{ local: '2026-12-01 22:30:00', dia: '2026-12-01' }])
})

/** A notice with 2 red and 2 green requirements among 6, 5 items of which 2 are selected, and 3 alerts. */
function rich(number: number, fields: Record<string, unknown> = {}): Entry {
  const item = (n: number) => ({
    numero_item: n,
    descricao: `Item ${n}`,
    valor_total: 100 * n,
    ai_selected: n <= 2,
  })
  const alert = (severity: string, action_type: string) => ({
    type: 'risk',
    severity,
    title: 'Prazo',
    action_type,
  })
  return noticeEntry(number, fields, {
    requirements: ['red', 'red', 'yellow', 'green', 'green', undefined].map((status, n) => ({
      category: 'outros',
      title: `Requisito ${n}`,
      status,
    })),
    items: [1, 2, 3, 4, 5].map(item),
    alerts: [alert('critical', 'impugnacao'), alert('high', 'recurso'), alert('low', 'none')],
    verdict: { recommendation: 'cautela' },
    pricing: { margem_min: 0.1, margem_max: 0.2, risco_pagamento: '' },
    orgao_report: { payment_risk: 'alto' },
  })
}

test('a summary counts each child once, and funnel, states and buyers add up to it', async () => {
  const company = await startSynced([
    rich(1, { data_sessao: noonIn(10), uf: 'RJ', valor_estimado: 1000, status: 'pricing' }),
    rich(2, { data_sessao: noonIn(-10), uf: ' ', valor_estimado: 500, status: 'expired' }),
    rich(3, { data_sessao: noonIn(40), uf: 'RJ', valor_estimado: 0, status: 'novo_status' }),
    rich(4, { status: 'discarded', discard_reason: 'Longe', valor_estimado: 70, uf: 'SP' }),
  ])
  const [resumo] = await company.query(`FROM edital_resumo WHERE edital_id = '${idOf(1)}'`)
  expect(resumo).toMatchObject({
    itens: 5,
    itens_valor_total: 1500,
    itens_selecionados: 2,
    itens_selecionados_valor: 300,
    requisitos: 6,
    requisitos_vermelhos: 2,
    requisitos_amarelos: 1,
    requisitos_verdes: 2,
    requisitos_sem_avaliacao: 1,
    alertas: 3,
    alertas_criticos: 1,
    alertas_altos: 1,
    alertas_baixos: 1,
    verdict_recommendation: 'cautela',
    margem_min: 0.1,
    risco_pagamento: 'alto',
    dias_ate_sessao: 10,
  })
  expect(await company.query('SELECT fase, editais, sem_valor, valor_total FROM funil')).toEqual([
    { fase: 'Triagem', editais: 0, sem_valor: 0, valor_total: 0 },
    { fase: 'Análise', editais: 0, sem_valor: 0, valor_total: 0 },
    { fase: 'Precificação', editais: 1, sem_valor: 0, valor_total: 1000 },
    { fase: 'Pronto', editais: 0, sem_valor: 0, valor_total: 0 },
    { fase: 'Descartado', editais: 1, sem_valor: 0, valor_total: 70 },
    { fase: 'Vencido', editais: 1, sem_valor: 0, valor_total: 500 },
    { fase: 'novo_status', editais: 1, sem_valor: 1, valor_total: 0 },
  ])
  expect(
    await company.query(
      'SELECT uf, editais, editais_em_andamento, valor_total, valor_em_andamento FROM valor_por_uf',
    ),
  ).toEqual([
    { uf: 'RJ', editais: 2, editais_em_andamento: 2, valor_total: 1000, valor_em_andamento: 1000 },
    { uf: 'não informada', editais: 1, editais_em_andamento: 0, valor_total: 500, valor_em_andamento: 0 },
    { uf: 'SP', editais: 1, editais_em_andamento: 0, valor_total: 70, valor_em_andamento: 0 },
  ])
  expect(await company.query('SELECT * EXCLUDE (company, uf, orgao_cnpj) FROM orgaos')).toMatchObject([
    { editais: 4, descartados: 1, parcela_descartada: 0.25, valor_total: 1570, risco_pagamento: 'alto' },
  ])
  expect(await company.query('SELECT motivo, editais, valor_total FROM motivos_descarte')).toEqual([
    { motivo: 'Longe', editais: 1, valor_total: 70 },
  ])
  expect(await company.query('SELECT edital_id, dias_ate_sessao FROM agenda_sessoes')).toEqual([
    { edital_id: idOf(1), dias_ate_sessao: 10 },
    { edital_id: idOf(3), dias_ate_sessao: 40 },
  ])
  const children = await company.query<{ name: string; n: number }>(
    `SELECT 'pendencias' AS name, count(*) AS n FROM pendencias_habilitacao WHERE em_andamento
     UNION ALL SELECT 'itens', count(*) FROM itens_selecionados
     UNION ALL SELECT 'prazos', count(*) FROM alertas_juridicos WHERE prazo IS NOT NULL AND dias_ate_prazo >= 0`,
  )
  expect(Object.fromEntries(children.map(({ name, n }) => [name, n]))).toEqual({
    pendencias: 6,
    itens: 8,
    prazos: 2,
  })
})

test('a buyer has the name of its latest notice on every card, and white space makes no separate reason', async () => {
  const alerts = [{ type: 'risk', severity: 'high', title: 'Prazo', action_type: 'none' }]
  const named = (number: number, orgao: string, updated_at: string) =>
    noticeEntry(number, { pncp_id: `00394460005887-2026-${number}`, orgao, updated_at }, { alerts })
  const company = await startSynced([
    named(1, 'Zeladoria Antiga', '2026-10-01T00:00:00Z'),
    named(2, 'Agência Nova', '2026-10-02T00:00:00Z'),
    noticeEntry(3, { status: 'discarded', discard_reason: 'Longe\n' }),
    noticeEntry(4, { status: 'discarded', discard_reason: ' Longe' }),
    noticeEntry(5, { status: 'discarded', discard_reason: '\t' }),
  ])
  const { sql } = await readCard('orgaos_com_alertas')
  expect(await company.query(sql.replaceAll(/\[\[.*?\]\]/gs, ''))).toEqual([
    { Órgão: 'Agência Nova', Alertas: 2 },
  ])
  expect(await company.query('SELECT motivo, editais FROM motivos_descarte')).toEqual([
    { motivo: 'Longe', editais: 2 },
    { motivo: 'não informado', editais: 1 },
  ])
})

test('a change of any field of the list is shown', async () => {
  const company = await startSynced([noticeEntry(1, healthyNotice(idOf(1)))])
  const fields = fieldsBelow('Notice').filter(({ name }) => !['id', 'updated_at'].includes(name))
  const optional = fields.filter(({ presence }) => presence !== 'always')
  const changes = [
    { of: fields, to: otherValue },
    { of: optional, to: () => undefined },
    { of: optional, to: otherValue },
  ]
  const shown: string[] = []
  for (const { of, to } of changes) {
    const edital = Object.fromEntries(of.map(field => [field.name, to(field)]))
    company.world.update(idOf(1), { edital, updatedAt: new Date() })
    await company.syncHere()
    shown.push(...of.map(({ name }) => name))
    const found = await company.query<{ campo: string }>('SELECT campo FROM mudancas')
    expect(found.map(({ campo }) => campo).sort()).toEqual(shown.toSorted())
  }
})

/** Not the value of a healthy notice. */
function otherValue({ type, values }: ContractField): unknown {
  if (values.length > 0) return values[0]
  if (type === 'boolean') return true
  if (type === 'number (double)') return 4321.5
  return isMoment(type) ? '2027-01-01T12:00:00Z' : 'Outro'
}

test('companies in different time zones can be queried together, each with its local times', async () => {
  const companies = await startCompanies(['acme', 'boreal', 'cedro'], () => [
    noticeEntry(1, { data_sessao: '2026-12-02T03:30:00Z', status: 'ready' }),
  ])
  await companies.configure({ acme: {}, boreal: { source_timezone: 'America/Manaus' }, cedro: {} })
  const { environment } = companies
  for (const [slug, zone] of [
    ['acme', 'America/Sao_Paulo'],
    ['boreal', 'America/Manaus'],
  ] as const) {
    const { environment, world } = companies.company(slug)
    await syncHere({ ...environment, SOURCE_TIMEZONE: zone })
    world.update(idOf(1), { edital: { data_sessao: '2026-12-03T03:30:00Z' }, updatedAt: new Date() })
    await syncHere({ ...environment, SOURCE_TIMEZONE: zone })
  }
  const sql = `SELECT company, data_sessao_local::VARCHAR AS hora,
    (SELECT sum(editais) FROM funil f WHERE f.company = e.company) AS editais,
    (SELECT any_value(de) FROM mudancas m WHERE m.company = e.company AND campo = 'data_sessao') AS antes
    FROM editais_ativos e ORDER BY 1`
  const expected = [
    { company: 'acme', hora: '2026-12-03 00:30:00', editais: 1, antes: '2026-12-02 00:30:00' },
    { company: 'boreal', hora: '2026-12-02 23:30:00', editais: 1, antes: '2026-12-01 23:30:00' },
  ]
  const asked = await runShared(['query', '--all', '--json', sql], environment)
  expect(asked.stderr).toBe('')
  expect(JSON.parse(asked.stdout)).toEqual(expected)

  const written = await runShared(['catalog'], environment)
  const path = join(environment.DATA_DIR ?? '', 'catalog.duckdb')
  expect(written).toMatchObject({ code: 0, stdout: `${path}: acme, boreal\n` })
  const db = await Database.open(path, { readOnly: true, threads: 1 })
  expect(await db.rows(sql)).toEqual(expected)
  db.close()
})
