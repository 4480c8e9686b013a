import { expect, test } from 'vitest'
import { type Called, connectToUrl } from '#test/support/mcp.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

/** Questions that a bid manager asks an agent. Each is answered by at most two calls of 8 kB, with a key that may not send SQL. */

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()
const paper = (price: number) => ({
  descricao: 'Papel sulfite A4, 75 g/m²',
  unidade_medida: 'RESMA',
  quantidade: 10,
  valor_unitario_estimado: price,
  valor_total: 10 * price,
})
const red = { category: 'tecnica', title: 'Atestado de capacidade técnica', status: 'red' }
const WORLD = [
  noticeEntry(
    1,
    {
      ...{
        numero: '90220/2026',
        orgao: 'MUNICIPIO DE CAMPINAS',
        uf: 'SP',
        pncp_id: '12345678000195-1-000001/2026',
      },
      ...{
        objeto: 'Aquisição de papel sulfite',
        data_sessao: inDays(3),
        status: 'pricing',
        valor_estimado: 50_000,
      },
    },
    {
      requirements: [red, { category: 'fiscal', title: 'Certidão negativa', status: 'green' }],
      items: [paper(20)],
      alerts: [],
    },
  ),
  noticeEntry(
    2,
    { orgao: 'ESTADO DA BAHIA', uf: 'BA', objeto: 'Serviço de limpeza predial', data_sessao: inDays(40) },
    {
      items: [paper(30), { ...paper(5), descricao: 'Caderno escolar', unidade_medida: 'UN' }],
      requirements: [],
    },
  ),
  noticeEntry(
    3,
    {
      orgao: 'UNIVERSIDADE FEDERAL DE PELOTAS',
      uf: 'RS',
      objeto: 'Material de escritório',
      data_sessao: inDays(9),
    },
    { items: [paper(40)], requirements: [red] },
  ),
]

type Call = (name: string, given?: Record<string, unknown>) => Promise<Called['data']>

const idsIn = (rows: readonly { edital_id: string }[]) => rows.map(({ edital_id }) => edital_id)

const QUESTIONS: Readonly<Record<string, (call: Call) => Promise<void>>> = {
  'O que vence nesta semana?': async call => {
    expect(idsIn((await call('list_due')).sessions)).toEqual([idOf(1)])
  },

  'Há editais de serviços de limpeza na Bahia?': async call => {
    const { total, notices } = await call('search_notices', { q: 'servicos limpeza', uf: 'BA' })
    expect([total, idsIn(notices)]).toEqual([1, [idOf(2)]])
  },

  'Quem pede papel sulfite, mesmo que o objeto não diga?': async call => {
    expect(idsIn((await call('search_notices', { q: 'papeis sulfite' })).notices).toSorted()).toEqual(
      [1, 2, 3].map(idOf),
    )
  },

  'O que há de novo desde ontem?': async call => {
    const { news } = await call('list_news', { since: '2020-01-01', kinds: ['Novo edital'] })
    expect(idsIn(news).toSorted()).toEqual([1, 2, 3].map(idOf))
    expect((await call('list_news', { kinds: ['Sessão antecipada'] })).news).toEqual([])
  },

  'Devemos participar do pregão 90220/2026, e o que falta?': async call => {
    const [{ edital_id }] = (await call('search_notices', { q: '90.220/2026' })).notices
    const { notice, requirements } = await call('get_notice', { edital_id })
    expect(notice).toMatchObject({ numero: '90220/2026', requisitos_vermelhos: 1 })
    expect(requirements.map(({ status }: { status: string }) => status)).toEqual(['red', 'green'])
  },

  'O que a prefeitura de Campina tem em aberto?': async call => {
    const [buyer] = (await call('find_buyers', { name: 'prefeitura de Campina' })).buyers
    expect(buyer).toMatchObject({ orgao: 'MUNICIPIO DE CAMPINAS', editais_em_andamento: 1 })
    expect(idsIn((await call('search_notices', { q: buyer.orgao_cnpj })).notices)).toEqual([idOf(1)])
  },

  'Quanto custa uma resma de papel A4?': async call => {
    const { prices_by_unit, latest_items } = await call('compare_prices', { item: 'papel a4' })
    expect(prices_by_unit).toMatchObject([{ itens: 3, preco_min: 20, preco_mediano: 30, preco_max: 40 }])
    expect(latest_items).toHaveLength(3)
    // "Cola" is no part of "escolar".
    expect((await call('compare_prices', { item: '"cola"' })).prices_by_unit).toEqual([])
  },

  'Quanto está em jogo em cada estado?': async call => {
    const { rows } = await call('ask_mart', { mart: 'valor_por_uf', filters: { uf: 'sp' } })
    expect(rows).toMatchObject([{ uf: 'SP' }])
  },

  'O que preciso decidir hoje?': async call => {
    const { rows } = await call('ask_mart', { mart: 'decisoes' })
    expect(idsIn(rows)).toContain(idOf(1))
  },

  'Quais pendências de habilitação bloqueiam mais editais?': async call => {
    const { rows } = await call('ask_mart', { mart: 'requisitos_bloqueantes', limit: 1 })
    expect(JSON.stringify(rows)).toContain('Atestado de capacidade técnica')
  },

  'Que editais acima de R$ 40 mil têm sessão em dez dias?': async call => {
    const session_to = inDays(10).slice(0, 10)
    const { notices } = await call('search_notices', { session_to, value_min: 40_000, sort: 'session' })
    expect(idsIn(notices)[0]).toBe(idOf(1))
  },

  'De quando são os dados, e o que posso perguntar?': async call => {
    expect((await call('ask_mart', { mart: 'frescor' })).rows).toHaveLength(1)
    const { marts, left_out } = await call('ask_mart')
    expect(marts.length).toBeGreaterThan(20)
    expect(left_out.join()).toMatch(/more marts: use a larger max_kb|^$/)
  },
}

test('twelve questions of a bid manager are answered by two small results each, at most', async () => {
  const { environment } = await startSynced(WORLD)
  const { url, keys } = await serveApi(environment)
  const agent = await connectToUrl(url, keys.acme as string, 'auto')
  expect(Object.keys(QUESTIONS)).toHaveLength(12)
  for (const [question, answer] of Object.entries(QUESTIONS)) {
    let calls = 0
    await answer(async (name, given) => {
      calls += 1
      const { data, text } = await agent.call(name, given)
      expect(data, `${question}: ${text}`).not.toBeNull()
      expect(Buffer.byteLength(JSON.stringify(data)), `${question}: ${name}`).toBeLessThanOrEqual(8000)
      return data
    })
    expect(calls, question).toBeLessThanOrEqual(2)
  }
})
