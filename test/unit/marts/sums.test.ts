import { expect, onTestFinished, test } from 'vitest'
import { VIEWS } from '#src/marts/marts.ts'
import { countDaysFrom } from '#src/marts/open.ts'
import { readCard } from '#src/present/questions.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { type ContractField, fieldsBelow, isMoment } from '#test/support/contract_tables.ts'
import { dayIn } from '#test/support/figures/calendar.ts'
import { healthyNotice } from '#test/support/healthy.ts'
import { openMarts } from '#test/support/marts.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'

/** Noon in São Paulo, this many local days from now. */
function noonIn(days: number): string {
  return `${dayIn(days)}T12:00:00-03:00`
}

test('each mart has its documented columns and types, and can be computed without notices', async () => {
  const marts = await openMarts()
  const columnsOf = await marts.query<{ view: string; columns: string[] }>(
    `SELECT table_name AS view, list(column_name || ' ' || data_type ORDER BY column_index) AS columns
     FROM duckdb_columns() WHERE database_name = current_database() GROUP BY ALL`,
  )
  for (const { name, columns, portuguese } of VIEWS) {
    // It names a sheet of the workbook.
    expect(portuguese[0].length, name).toBeLessThanOrEqual(31)
    expect(columnsOf.find(({ view }) => view === name)?.columns, name).toEqual(
      columns.map(
        column => `${column.name} ${column.type.replace('TIMESTAMPTZ', 'TIMESTAMP WITH TIME ZONE')}`,
      ),
    )
  }
  for (const { name } of VIEWS) await marts.query(`SELECT max(hash(m)) FROM "${name}" m`)
})

test('a value of 0 means unknown, and implausible values are suspect', async () => {
  const values = [0, 0.01, 99999999.99, 9999999999999.99, 2e11, -5, 1250.5, 999999.99, null]
  const marts = await openMarts(
    values.map((valor_estimado, index) =>
      noticeEntry(index + 1, { valor_estimado: valor_estimado ?? undefined }),
    ),
  )
  expect(
    await marts.query(
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

test('values of items are judged like those of notices, and by their notice, and a state is one state however it is written', async () => {
  const values = [0, 0.01, 99999999.99, 9999999999999.99, 2e11, -5, 1250.5, 0.99, null, 100, 1300.01]
  const items = values.map((valor_total, index) => ({
    numero_item: index + 1,
    descricao: 'Item',
    valor_total,
    ai_selected: valor_total !== 100,
  }))
  const marts = await openMarts([
    noticeEntry(1, { uf: ' RJ ', valor_estimado: 1250 }, { items }),
    noticeEntry(2, { uf: '\u00a0rj\t' }),
    noticeEntry(3, { uf: 'RJ', valor_estimado: 1 }),
    noticeEntry(4, { uf: '  ' }),
  ])
  expect(
    await marts.query(
      `SELECT itens_valor_total AS itens, itens_selecionados_valor AS selecionados,
         itens_selecionados_valor_somado AS somados, itens_sem_valor AS sem_valor
       FROM edital_resumo WHERE edital_id IN ('${idOf(1)}', '${idOf(3)}') ORDER BY edital_id`,
    ),
  ).toEqual([
    { itens: 1250, selecionados: 1250, somados: 1250, sem_valor: 9 },
    { itens: 9, selecionados: null, somados: null, sem_valor: 0 },
  ])
  expect(
    await marts.query(
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
  expect(await marts.query('SELECT uf, editais FROM valor_por_uf ORDER BY editais DESC')).toEqual([
    { uf: 'RJ', editais: 3 },
    { uf: 'não informada', editais: 1 },
  ])
  expect(await marts.query(`SELECT count(*) AS n FROM alertas_juridicos WHERE uf = 'RJ'`)).toEqual([{ n: 3 }])
})

test('a session late in the evening is on its local day, not on its day in UTC', async () => {
  const marts = await openMarts([noticeEntry(1, { data_sessao: '2026-12-02T01:30:00Z' })])
  expect(
    await marts.query(
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
  const marts = await openMarts([
    rich(1, { data_sessao: noonIn(10), uf: 'RJ', valor_estimado: 1000, status: 'pricing' }),
    rich(2, { data_sessao: noonIn(-10), uf: ' ', valor_estimado: 500, status: 'expired' }),
    rich(3, { data_sessao: noonIn(40), uf: 'RJ', valor_estimado: 0, status: 'novo_status' }),
    rich(4, { status: 'discarded', discard_reason: 'Longe', valor_estimado: 70, uf: 'SP' }),
  ])
  const [resumo] = await marts.query(`FROM edital_resumo WHERE edital_id = '${idOf(1)}'`)
  expect(resumo).toMatchObject({
    itens: 5,
    // At most the value of the notice.
    itens_valor_total: 1000,
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
  expect(await marts.query('SELECT fase, editais, sem_valor, valor_total FROM funil')).toEqual([
    { fase: 'Triagem', editais: 0, sem_valor: 0, valor_total: 0 },
    { fase: 'Análise', editais: 0, sem_valor: 0, valor_total: 0 },
    { fase: 'Precificação', editais: 1, sem_valor: 0, valor_total: 1000 },
    { fase: 'Pronto', editais: 0, sem_valor: 0, valor_total: 0 },
    { fase: 'Descartado', editais: 1, sem_valor: 0, valor_total: 70 },
    { fase: 'Vencido', editais: 1, sem_valor: 0, valor_total: 500 },
    { fase: 'novo_status', editais: 1, sem_valor: 1, valor_total: 0 },
  ])
  expect(
    await marts.query(
      'SELECT uf, editais, editais_em_andamento, valor_total, valor_em_andamento FROM valor_por_uf',
    ),
  ).toEqual([
    { uf: 'RJ', editais: 2, editais_em_andamento: 2, valor_total: 1000, valor_em_andamento: 1000 },
    { uf: 'não informada', editais: 1, editais_em_andamento: 0, valor_total: 500, valor_em_andamento: 0 },
    { uf: 'SP', editais: 1, editais_em_andamento: 0, valor_total: 70, valor_em_andamento: 0 },
  ])
  expect(await marts.query('SELECT * EXCLUDE (company, uf, orgao_cnpj) FROM orgaos')).toMatchObject([
    { editais: 4, descartados: 1, parcela_descartada: 0.25, valor_total: 1570, risco_pagamento: 'alto' },
  ])
  expect(await marts.query('SELECT motivo, editais, valor_total FROM motivos_descarte')).toEqual([
    { motivo: 'Longe', editais: 1, valor_total: 70 },
  ])
  expect(await marts.query('SELECT edital_id, dias_ate_sessao FROM agenda_sessoes')).toEqual([
    { edital_id: idOf(1), dias_ate_sessao: 10 },
    { edital_id: idOf(3), dias_ate_sessao: 40 },
  ])
  const children = await marts.query<{ name: string; n: number }>(
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
  const ahead = { data_sessao: '2059-01-02' }
  const alerts = [{ type: 'risk', severity: 'high', title: 'Prazo', action_type: 'none' }]
  const named = (number: number, orgao: string, updated_at: string) =>
    noticeEntry(number, { ...ahead, pncp_id: `00394460005887-2026-${number}`, orgao, updated_at }, { alerts })
  const marts = await openMarts([
    named(1, 'Zeladoria Antiga', '2026-10-01T00:00:00Z'),
    named(2, 'Agência Nova', '2026-10-02T00:00:00Z'),
    noticeEntry(3, { status: 'discarded', discard_reason: 'Longe\n' }),
    noticeEntry(4, { status: 'discarded', discard_reason: ' Longe' }),
    noticeEntry(5, { status: 'discarded', discard_reason: '\t' }),
  ])
  const { sql } = await readCard('orgaos_com_alertas')
  expect(await marts.query(sql.replaceAll(/\[\[.*?\]\]/gs, ''))).toEqual([
    { Órgão: 'Agência Nova', Alertas: 2 },
  ])
  expect(await marts.query('SELECT motivo, editais FROM motivos_descarte')).toEqual([
    { motivo: 'Longe', editais: 2 },
    { motivo: 'não informado', editais: 1 },
  ])
})

test('a change of any field of the list is shown', async () => {
  const edital = { ...healthyNotice(idOf(1)) }
  const marts = await openMarts([noticeEntry(1, edital)])
  const fields = fieldsBelow('Notice').filter(({ name }) => !['id', 'updated_at'].includes(name))
  const optional = fields.filter(({ presence }) => presence !== 'always')
  const changes = [
    { of: fields, to: otherValue },
    { of: optional, to: () => undefined },
    { of: optional, to: otherValue },
  ]
  const shown: string[] = []
  for (const { of, to } of changes) {
    for (const field of of) edital[field.name] = to(field)
    await marts.run(new Date(), {
      shown: [noticeEntry(1, { ...edital, updated_at: new Date().toISOString() })],
    })
    shown.push(...of.map(({ name }) => name))
    const found = await marts.query<{ campo: string }>('SELECT campo FROM mudancas')
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

test('the range of a price band leaves out times that cannot be meant', async () => {
  const items = [{ descricao: 'Papel A4', unidade_medida: 'UN', valor_unitario_estimado: 5 }]
  const entries = ['0001-01-01', '2026-03-01', '2026-04-01'].map((day, n) =>
    noticeEntry(n + 1, { created_at: `${day}T12:00:00Z` }, { items }),
  )
  const marts = await openMarts(entries)
  const days = 'primeiro_dia::TEXT AS first, ultimo_dia::TEXT AS last'
  expect(await marts.query(`SELECT ${days} FROM faixas_de_preco`)).toEqual([
    { first: '2026-03-01', last: '2026-04-01' },
  ])
})

test('the prices of a buyer are beside the median of the same item and unit, whatever the spelling; generic and symbolic ones, and those of services, are not', async () => {
  const paper = (price: number, descricao = 'Papel A4', unidade_medida = 'UN') => ({
    descricao,
    unidade_medida,
    valor_unitario_estimado: price,
  })
  const pen = paper(1, 'Em dois editais')
  const generic = (price: number) => paper(price, 'Caneta azul')
  const left = [
    ...[paper(1, 'Preço simbólico'), paper(9000, 'Consultoria técnica', ' UST'), paper(50, ' Cadeira\t')],
    { ...paper(300, 'Poda de árvores'), material_ou_servico: 'S' },
  ]
  const offers = [
    { orgao: 'A', items: [paper(12), pen, pen, generic(2), ...left] },
    { orgao: 'B', items: [paper(10, 'PAPEL  a4'), paper(10), pen, generic(10), ...left] },
    {
      orgao: 'C',
      items: [paper(8, 'Papel A4', 'Unidade '), paper(240, 'Papel A4', 'CX'), generic(22), ...left],
    },
  ]
  const entries = offers.map(({ orgao, items }, n) =>
    noticeEntry(n + 1, { orgao, pncp_id: `x${n}` }, { items }),
  )
  const marts = await openMarts(entries)
  const columns =
    'orgao, itens, round(diferenca_mediana, 3) AS difference, itens_acima AS above, itens_abaixo AS below'
  expect(await marts.query(`SELECT ${columns} FROM precos_por_orgao`)).toEqual([
    { orgao: 'A', itens: 1, difference: 0.2, above: 1, below: 0 },
    { orgao: 'B', itens: 2, difference: 0, above: 0, below: 0 },
    { orgao: 'C', itens: 1, difference: -0.2, above: 0, below: 1 },
  ])
  expect(
    await marts.query('SELECT descricao, unidade, itens, editais, preco_mediano FROM faixas_de_preco'),
  ).toEqual([{ descricao: 'Papel A4', unidade: 'UN', itens: 4, editais: 3, preco_mediano: 10 }])
})

test('a notice is a price registration if a part of its analysis says so, else none if one denies it', async () => {
  const said = [[true, false], [false, true], [false], [undefined, false], []] as const
  const entries = said.map(([overview, pricing], n) =>
    noticeEntry(n + 1, {}, { overview: { is_srp: overview }, pricing: { is_srp: pricing } }),
  )
  const marts = await openMarts(entries)
  const [found] = await marts.query(
    'SELECT list(registro_de_precos ORDER BY edital_id) AS all FROM edital_resumo',
  )
  expect(found).toEqual({ all: [true, true, false, false, null] })
})

test('a purchase that is published again counts once, in its latest notice in progress', async () => {
  const base = { objeto: 'Aquisição de Cadeiras', valor_estimado: 1000 }
  const since = (day: string) => ({ ...base, created_at: `${day}T12:00:00Z` })
  const published = [
    since('2026-01-10'),
    {
      ...since('2026-03-01'),
      objeto: '[LICITANET] - AQUISIÇÃO\u00a0 de cadeiras ',
      valor_estimado: 1000.004,
    },
    { ...since('2026-08-28'), objeto: 'aquisicao de ca\u00addeiras', status: 'expired' },
    // One day more than half a year.
    { ...since('2027-02-25'), status: 'discarded' },
    { ...since('2027-02-26'), status: 'discarded' },
    // A cent, another buyer, another object.
    { ...since('2026-03-01'), valor_estimado: 1000.01 },
    { ...since('2026-03-01'), pncp_id: `${'12'.repeat(7)}-2026-1` },
    { ...since('2026-03-01'), objeto: 'Aquisição de 2 cadeiras' },
    // What says nothing.
    ...[0, 0, undefined, undefined, 1e12, 1e12].map(valor_estimado => ({ ...base, valor_estimado })),
    ...['', ' ', undefined, undefined, '[LICITANET] - ', '[BLL]'].map(objeto => ({ ...base, objeto })),
    // Without a CNPJ, by name; without a name, not at all.
    ...['Câmara', ' CAMARA ', undefined, undefined].map(orgao => ({ ...base, pncp_id: 'x', orgao })),
    // A new purchase with the same text, at another price.
    ...['2026-02-01', '2026-02-20'].map(day => ({ ...since(day), valor_estimado: 2000 })),
  ]
  const entries = published.map((fields, index) => noticeEntry(index + 1, fields))
  const marts = await openMarts(entries)
  const counted = () =>
    marts.query('SELECT edital_id, contado_no_edital AS em FROM republicacoes ORDER BY edital_id')
  const [camara, later] = [21, 22].map(idOf)
  expect(await counted()).toEqual([
    { edital_id: idOf(1), em: idOf(2) },
    { edital_id: idOf(3), em: idOf(2) },
    { edital_id: idOf(4), em: idOf(5) },
    { edital_id: later, em: camara },
    { edital_id: idOf(25), em: idOf(26) },
  ])
  const sums =
    'SELECT sum(editais)::INT AS editais, sum(valor_total) AS total, sum(valor_em_andamento) AS andamento'
  expect(await marts.query(`${sums} FROM valor_por_uf`)).toEqual([
    { editais: entries.length, total: 16_000.014, andamento: 15_000.014 },
  ])
  expect(await marts.query(`SELECT sum(valor_total) AS total FROM funil`)).toEqual([{ total: 16_000.014 }])
  // The one that counted is gone: of the others, none is in progress within half a year.
  await marts.run(new Date(), { gone: [entries[1] as Entry] })
  expect((await counted()).slice(0, 1)).toEqual([{ edital_id: idOf(4), em: idOf(5) }])
})

test('the service of a day is its good runs, and how old the data became; also on a day on which nobody read', async () => {
  const marts = await openMarts()
  const runs = [
    ['2026-03-02T12:00:00Z', 'full', 'failed', 0],
    ['2026-03-02T15:00:00Z', 'full', 'ok', 0],
    ['2026-03-02T21:00:00Z', 'incremental', 'partial', 0],
    // One that left notices out, and those that say nothing about the other notices.
    ['2026-03-02T23:00:00Z', 'incremental', 'partial', 3],
    ...['filtered', 'replay', 'salvage'].map(mode => ['2026-03-03T12:00:00Z', mode, 'ok', 0] as const),
    // After midnight in UTC, and still the day before in São Paulo.
    ['2026-03-05T02:30:00Z', 'incremental', 'ok', 0],
    ['2026-03-05T03:00:00Z', 'incremental', 'interrupted', 0],
  ] as const
  const rows = runs.map(
    ([at, mode, status, left], n) => `('r${n}', '${at}'::TIMESTAMPTZ, '${mode}', '${status}', ${left})`,
  )
  await marts.db.run(
    `INSERT INTO sync_runs BY NAME SELECT run_id, moment AS started_at, if(status = 'interrupted', NULL, moment) AS finished_at, mode, status, not_attempted
     FROM (VALUES ${rows.join(', ')}) AS run(run_id, moment, mode, status, not_attempted)`,
  )
  await countDaysFrom(marts.db, new Date('2026-03-05T15:00:00Z'))
  onTestFinished(() => marts.db.run('RESET VARIABLE editais_agora'))
  expect(
    await marts.query(
      `SELECT dia::VARCHAR AS dia, execucoes, execucoes_boas AS boas, parcela_boa AS parcela, maior_intervalo_horas AS horas FROM servico`,
    ),
  ).toEqual([
    // Until midnight: 6 hours between two good runs, then 6 more.
    { dia: '2026-03-02', execucoes: 4, boas: 2, parcela: 0.5, horas: 6 },
    { dia: '2026-03-03', execucoes: 0, boas: 0, parcela: null, horas: 30 },
    { dia: '2026-03-04', execucoes: 1, boas: 1, parcela: 1, horas: 53.5 },
    { dia: '2026-03-05', execucoes: 1, boas: 0, parcela: 0, horas: 12.5 },
  ])
  const [frescor] = await marts.query('SELECT ultima_boa_em, ultima_execucao_status AS status FROM frescor')
  expect(frescor).toEqual({ ultima_boa_em: new Date('2026-03-05T02:30:00Z'), status: 'interrupted' })
})
