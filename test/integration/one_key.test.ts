import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Entry } from '#src/sandbox/world.ts'
import { connectToCommand } from '#test/support/mcp.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'
import { spellingsOf } from '#test/support/texts.ts'

const SEED = 3608
const DAY_MS = 86_400_000
const soon = new Date(Date.now() + 3 * DAY_MS).toISOString()

/** Texts that look the same, each as a list of notices has it. The first is the most frequent. */
const WRITTEN = {
  uf: ['SP', 'SP', 'sp', 'SP ', 'SP\u00a0', 'S\u200bP'],
  modalidade: [
    ...['Pregão - Eletrônico', 'Pregão - Eletrônico', 'Pregão Eletrônico'],
    ...['PREGA\u0303O\u202fELETRO\u0302NICO', 'Pre\u00adgão – eletrônico', 'Pregão na forma eletrônica'],
  ],
  orgao: [
    ...['Câmara de Niterói', 'Câmara de Niterói', 'CÂMARA DE NITERÓI'],
    ...['Ca\u0302mara de Nitero\u0301i', 'Câmara\tde\u2009Niterói', 'Câ\u200bmara de Niterói\ufeff'],
  ],
  discard_reason: [
    ...['Prazo insuficiente', 'Prazo insuficiente', 'prazo insuficiente'],
    ...['Prazo\u00a0insuficiente', ' Prazo insuficiente', 'Prazo insufici\u00adente'],
  ],
  descricao: [
    ...['Água mineral 500 ml', 'Água mineral 500 ml', 'ÁGUA MINERAL 500 ML'],
    ...['A\u0301gua mineral 500 ml', 'Água mineral 500\u202fml', ' Á\u00adgua  mineral\t500 ml'],
  ],
  unidade_medida: ['Unidade', 'UN', 'UN\u00a0', 'Uni\u00addade', 'und.', 'un\u200bid'],
  title: [
    ...['Atestado técnico', 'Atestado técnico', 'ATESTADO TÉCNICO'],
    ...['Atestado te\u0301cnico', 'Atestado\u202ftécnico', 'Ates\u00adtado técnico '],
  ],
  risco: ['medio', 'medio', 'Médio', 'me\u0301dio', 'MEDIO\u00a0', 'mé\u200bdio'],
} as const

const COUNT = WRITTEN.uf.length

function entry(number: number, fields: object = {}): Entry {
  const at = (name: keyof typeof WRITTEN) => WRITTEN[name][number - 1]
  const { uf, modalidade, orgao, discard_reason } = { ...fields } as Record<string, string | undefined>
  return noticeEntry(
    number,
    {
      // No CNPJ: the buyer is known by its name alone.
      pncp_id: `${number}`,
      uf: uf ?? at('uf'),
      modalidade: modalidade ?? at('modalidade'),
      orgao: orgao ?? at('orgao'),
      discard_reason: discard_reason ?? at('discard_reason'),
      objeto: 'Aquisição de medi\u00adcamen\u200btos\u202fba\u0301sicos',
      data_sessao: soon,
      status: 'analysis',
      ...fields,
    },
    {
      requirements: [{ category: 'outros', title: at('title'), status: 'red' }],
      items: [
        {
          numero_item: 1,
          descricao: at('descricao'),
          unidade_medida: at('unidade_medida'),
          valor_unitario_estimado: number,
        },
      ],
      pricing: { risco_pagamento: at('risco') },
    },
  )
}

const entries = (fields: object = {}) => Array.from({ length: COUNT }, (_, n) => entry(n + 1, fields))

test('texts that look the same are one group in every mart, shown in its most frequent spelling', async () => {
  const company = await startSynced(entries())
  const query = (sql: string) => company.query(sql)
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
  const company = await startSynced(entries({ status: 'discarded' }))
  for (const mart of ['motivos_descarte', 'descartes_recomendados']) {
    expect(await company.query(`SELECT motivo, editais FROM ${mart}`)).toEqual([
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
  const company = await startSynced(modalities.map((modalidade, n) => entry(n + 1, { modalidade })))
  expect(
    await company.query('SELECT modalidade, editais FROM valor_por_modalidade ORDER BY modalidade'),
  ).toEqual([
    { modalidade: '-', editais: 1 },
    { modalidade: 'Dispensa', editais: 2 },
    { modalidade: 'Pregão', editais: 1 },
    { modalidade: 'Pregão Eletrônico', editais: 1 },
    { modalidade: 'Pregão Presencial', editais: 1 },
  ])
})

test('a text in which nothing is visible is none', async () => {
  const company = await startSynced([
    entry(1, { uf: '\u200b', modalidade: '\u00a0', orgao: ' \t', discard_reason: '' }),
  ])
  expect(await company.query('SELECT uf, modalidade, orgao, discard_reason FROM editais_ativos')).toEqual([
    { uf: null, modalidade: null, orgao: null, discard_reason: null },
  ])
  expect(await company.query('SELECT modalidade FROM valor_por_modalidade')).toEqual([
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
  const company = await startSynced(spellings.map((orgao, n) => entry(n + 1, { orgao })))
  const shown = () => company.query('SELECT DISTINCT orgao FROM editais_ativos')
  company.world.remove(idOf(3))
  await company.syncHere()
  expect(await shown()).toEqual([{ orgao: 'Câmara de Niterói' }])
  for (const n of [1, 2]) company.world.remove(idOf(n))
  await company.syncHere()
  expect(await shown()).toEqual([{ orgao: 'CÂMARA DE NITERÓI' }])
})

const FILTERS = ['SP', 'sp', ' sp ', 'SP\u00a0', 'S\u00adP']
const MODALITIES = [
  'pregao eletronico',
  'Pregão - Eletrônico',
  'PREGA\u0303O\u202fELETRO\u0302NICO',
  'pre\u00adgão',
]

test('the served API and the pages find every spelling, and return it as it was sent', async () => {
  const { environment } = await startSynced([
    ...entries(),
    entry(20, { uf: 'RJ', modalidade: 'Dispensa', orgao: 'x', objeto: 'y' }),
  ])
  const { json, ask, keys } = await serveApi(environment)
  type Page = { total: number; editais: { uf: string; id: string }[] }
  const search = (parameters: Record<string, string>) =>
    json<Page>(`/api/v1/mirror/editais?${new URLSearchParams({ limit: '50', ...parameters })}`)
  for (const uf of FILTERS) expect((await search({ uf })).total, JSON.stringify(uf)).toBe(COUNT)
  expect((await search({ uf: 'sp\u00a0, rj' })).total).toBe(COUNT + 1)
  for (const modalidade of MODALITIES)
    expect((await search({ modalidade })).total, JSON.stringify(modalidade)).toBe(COUNT)
  expect((await search({ modalidade: 'dispensa de licitação' })).total).toBe(1)
  for (const q of [
    'medicamentos',
    'medica\u0301mentos',
    'medi\u00adcamento',
    'medi\ufeffcamentos',
    'niteroi',
    '"medicamentos básicos"',
    'medicam*',
    'basicos',
  ])
    expect((await search({ q })).total, JSON.stringify(q)).toBe(COUNT)
  const { editais } = await search({ uf: 'sp' })
  expect(editais.map(({ uf }) => uf).sort()).toEqual([...WRITTEN.uf].sort())
  const person = { key: null, headers: { cookie: `editais_chave=${keys.acme}` } }
  for (const parameters of [
    { uf: 'sp ' },
    { modalidade: 'Pregão\u202fEletrônico' },
    { q: 'medi\u200bcamentos' },
  ]) {
    const { body } = await ask(`/editais?${new URLSearchParams(parameters)}`, person)
    expect(body.toString()).toContain(`${COUNT} editais encontrados`)
  }
})

test('saved questions and tools for agents find every spelling', async () => {
  const { environment } = await startSynced(entries())
  // The API's test has more of them. Each call is a process.
  const [uf, text, orgao] = ['S\u00adP', 'Medi\u00adcamentos ca\u200bmara', 'CAMARA\u202fDE NITEROI']
  const { stdout } = await runShared(['ask', 'agenda', '--uf', uf, '--json'], environment)
  expect((JSON.parse(stdout) as unknown[]).length).toBe(COUNT)
  const { call } = await connectToCommand(environment)
  expect((await call('search_notices', { uf, text })).data.total).toBe(COUNT)
  const filters = { uf, orgao, modalidade: 'pregao eletronico' }
  expect((await call('ask_mart', { mart: 'agenda_sessoes', filters })).data.rows).toHaveLength(COUNT)
})

test(`however texts are written, no group is split and no notice is hidden (seed ${SEED})`, async () => {
  const texts = {
    uf: 'BA',
    modalidade: 'Concorrência - Eletrônica',
    orgao: 'Município de São João del-Rei',
    discard_reason: 'Exigência técnica',
  }
  const count = 60
  const written = Object.fromEntries(
    Object.entries(texts).map(([name, text], n) => [
      name,
      fc.sample(spellingsOf(text), { seed: SEED + n, numRuns: count }),
    ]),
  )
  const company = await startSynced(
    Array.from({ length: count }, (_, n) =>
      noticeEntry(n + 1, {
        pncp_id: `${n}`,
        ...Object.fromEntries(Object.entries(written).map(([name, all]) => [name, all[n]])),
      }),
    ),
  )
  expect(
    await company.query(
      `SELECT count(DISTINCT uf)::INT AS uf, count(DISTINCT modalidade)::INT AS modalidade, count(DISTINCT orgao)::INT AS orgao,
         count(DISTINCT discard_reason)::INT AS discard_reason FROM editais_ativos`,
    ),
  ).toEqual([{ uf: 1, modalidade: 1, orgao: 1, discard_reason: 1 }])
  expect(await company.query('SELECT editais FROM orgaos')).toEqual([{ editais: count }])
  const { json } = await serveApi(company.environment)
  for (const parameters of [
    { uf: 'ba' },
    { modalidade: 'concorrencia eletronica' },
    { q: '"sao joao del rei"' },
  ]) {
    const { total } = await json<{ total: number }>(
      `/api/v1/mirror/editais?${new URLSearchParams(parameters)}`,
    )
    expect(total, JSON.stringify(parameters)).toBe(count)
  }
})

test('a table on a terminal shows no character that it would obey or hide', async () => {
  const { environment } = await startSynced([entry(1, { orgao: 'Câmara\u202e de\u200b Niterói\u001b[31m' })])
  const { stdout } = await runShared(['query', 'SELECT orgao FROM editais'], environment)
  expect(stdout).toContain('Câmara de Niterói [31m')
  const failed = await runShared(['query', `SELECT 'a\u202eb'::INT`], environment)
  expect(failed.stderr).toContain("'ab'")
  const raw = await runShared(['query', 'SELECT orgao FROM editais', '--csv'], environment)
  expect(raw.stdout).toContain('Câmara\u202e de\u200b Niterói')
})
