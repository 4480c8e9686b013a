import { expect, test } from 'vitest'
import { openMarts } from '#test/support/marts.ts'
import {
  COUNT,
  spelledAtRandom,
  spelledEntries,
  spelledEntry,
  WRITTEN,
} from '#test/support/spelled_entries.ts'

const SEED = 3608

test('texts that look the same are one group in every mart, shown in its most frequent spelling', async () => {
  const marts = await openMarts(spelledEntries())
  const { query } = marts
  expect(
    await query(
      'SELECT uf, modalidade, orgao, discard_reason, count(*)::INT AS n FROM editais_ativos GROUP BY ALL',
    ),
  ).toEqual([
    {
      uf: 'SP',
      modalidade: 'Pregão - Eletrônico',
      orgao: 'Câmara de Niterói',
      discard_reason: 'Prazo insuficiente',
      n: COUNT,
    },
  ])
  expect(await query('SELECT uf, editais FROM valor_por_uf')).toEqual([{ uf: 'SP', editais: COUNT }])
  expect(await query('SELECT modalidade, editais FROM valor_por_modalidade')).toEqual([
    { modalidade: 'Pregão - Eletrônico', editais: COUNT },
  ])
  expect(await query('SELECT orgao, orgao_cnpj, uf, editais, risco_pagamento_rotulo FROM orgaos')).toEqual([
    {
      orgao: 'Câmara de Niterói',
      orgao_cnpj: null,
      uf: 'SP',
      editais: COUNT,
      risco_pagamento_rotulo: 'médio',
    },
  ])
  expect(await query('SELECT requisito, editais FROM requisitos_bloqueantes')).toEqual([
    { requisito: 'Atestado técnico', editais: COUNT },
  ])
  expect(await query('SELECT descricao, unidade, itens, preco_max FROM faixas_de_preco')).toEqual([
    { descricao: 'Água mineral 500 ml', unidade: 'UN', itens: COUNT, preco_max: COUNT },
  ])
  expect(
    await query(
      'SELECT risco_pagamento, risco_pagamento_rotulo, editais_em_andamento AS n FROM exposicao_pagamento',
    ),
  ).toEqual([{ risco_pagamento: 'medio', risco_pagamento_rotulo: 'médio', n: COUNT }])
  // The tables keep what was sent.
  for (const [column, table] of [
    ['uf', 'editais'],
    ['orgao', 'editais'],
    ['descricao', 'items'],
    ['title', 'requirements'],
  ] as const) {
    const stored = await query(`SELECT "${column}" AS sent FROM ${table} ORDER BY edital_id`)
    expect(stored.map(({ sent }) => sent)).toEqual(WRITTEN[column])
  }
})

test('discarded notices have one reason, and so have those that were recommended', async () => {
  const marts = await openMarts(spelledEntries({ status: 'discarded' }))
  for (const mart of ['motivos_descarte', 'descartes_recomendados']) {
    expect(await marts.query(`SELECT motivo, editais FROM ${mart}`)).toEqual([
      { motivo: 'Prazo insuficiente', editais: COUNT },
    ])
  }
})

test('modalities that differ in more than spelling stay apart', async () => {
  const modalities = [
    'Pregão',
    'Pregão Presencial',
    'Pregão Eletrônico',
    'Dispensa',
    'Dispensa de Licitação',
    ' - ',
  ]
  const marts = await openMarts(modalities.map((modalidade, n) => spelledEntry(n + 1, { modalidade })))
  expect(
    await marts.query('SELECT modalidade, editais FROM valor_por_modalidade ORDER BY modalidade'),
  ).toEqual([
    { modalidade: '-', editais: 1 },
    { modalidade: 'Dispensa', editais: 2 },
    { modalidade: 'Pregão', editais: 1 },
    { modalidade: 'Pregão Eletrônico', editais: 1 },
    { modalidade: 'Pregão Presencial', editais: 1 },
  ])
})

test('a text in which nothing is visible is none', async () => {
  const marts = await openMarts([
    spelledEntry(1, { uf: '\u200b', modalidade: '\u00a0', orgao: ' \t', discard_reason: '' }),
  ])
  expect(await marts.query('SELECT uf, modalidade, orgao, discard_reason FROM editais_ativos')).toEqual([
    { uf: null, modalidade: null, orgao: null, discard_reason: null },
  ])
  expect(await marts.query('SELECT modalidade FROM valor_por_modalidade')).toEqual([
    { modalidade: 'não informada' },
  ])
})

test('the next run shows the spelling that is then the most frequent', async () => {
  const spellings = [
    'Câmara de Niterói',
    'Câmara de Niterói',
    'CÂMARA DE NITERÓI',
    'CA\u0302MARA DE  NITERO\u0301I',
  ]
  const all = spellings.map((orgao, n) => spelledEntry(n + 1, { orgao }))
  const marts = await openMarts(all)
  const shown = () => marts.query('SELECT DISTINCT orgao FROM editais_ativos')
  await marts.run(new Date(), { gone: all.slice(2, 3) })
  expect(await shown()).toEqual([{ orgao: 'Câmara de Niterói' }])
  await marts.run(new Date(), { gone: all.slice(0, 2) })
  expect(await shown()).toEqual([{ orgao: 'CÂMARA DE NITERÓI' }])
})

test(`however texts are written, no group is split (seed ${SEED})`, async () => {
  const written = spelledAtRandom(SEED)
  const marts = await openMarts(written)
  expect(
    await marts.query(
      `SELECT count(DISTINCT uf)::INT AS uf, count(DISTINCT modalidade)::INT AS modalidade, count(DISTINCT orgao)::INT AS orgao,
         count(DISTINCT discard_reason)::INT AS discard_reason FROM editais_ativos`,
    ),
  ).toEqual([{ uf: 1, modalidade: 1, orgao: 1, discard_reason: 1 }])
  expect(await marts.query('SELECT editais FROM orgaos')).toEqual([{ editais: written.length }])
})
