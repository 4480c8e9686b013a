import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Notice, STATUSES } from '#schema/notice.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { until } from '#test/support/daemon.ts'
import { bareNotice, idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { type SyncedCompany, startSynced } from '#test/support/synced.ts'

const SEARCH = '/api/v1/mirror/editais'

type Parameters = Readonly<Record<string, string>>
type Page = {
  readonly editais: readonly Readonly<Record<string, unknown>>[]
  readonly count: number
  readonly total: number
  readonly next: string | null
  readonly snapshot: string
}

function pathOf(parameters: Parameters): string {
  return `${SEARCH}?${new URLSearchParams(parameters)}`
}

const search = (api: ServedApi, parameters: Parameters = {}) => api.json<Page>(pathOf(parameters))

async function idsOf(api: ServedApi, parameters: Parameters): Promise<unknown[]> {
  return (await search(api, { limit: '200', ...parameters })).editais.map(({ id }) => id)
}

/** The answer to a search that is refused. */
async function refusal(api: ServedApi, parameters: Parameters) {
  const { status, body } = await api.ask(pathOf(parameters))
  return { status, ...(JSON.parse(body.toString()) as { error: string; detail: string }) }
}

/** Served notices with these objects, by number. */
async function serveObjects(objects: readonly string[]): Promise<ServedApi> {
  const entries = objects.map((objeto, index) => bareNotice(index + 1, { objeto, orgao: 'Prefeitura' }))
  return await serveApi((await startSynced(entries)).environment)
}

async function publish(company: SyncedCompany, api: ServedApi): Promise<void> {
  const { snapshot } = await search(api, { limit: '1' })
  await company.syncHere()
  await until(async () => (await search(api, { limit: '1' })).snapshot !== snapshot, {
    what: 'the next snapshot',
  })
}

/**
 * Texts, and what finds them in lower case without accents, by someone who knows the language: in the notice's own texts, or also
 * in its items and requirements.
 */
const TEXTS: readonly (readonly [q: string, found: RegExp, where?: 'own'])[] = [
  ['aquisições', /\baquisic(ao|oes)\b/],
  // The stemmer takes "médico" for a form of "medicamento".
  ['AQUISICAO medicamento', /^(?=.*\baquisic(ao|oes)\b).*\bmedic(amento|o|a)s?\b/s],
  ['"registro de preço"', /\bregistros? de precos?\b/, 'own'],
  ['"preço registro"', /\bprecos? registros?\b/, 'own'],
  ['muni*', /\bmuni/],
  ['escolares', /\bescola(r|res)\b/],
  ['de', /\bde\b/, 'own'],
  ['xyzzy', /xyzzy/],
]

const folded = (text: string) => text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()

/** Microseconds; without an offset, a time is Brasília's. */
function instantOf(time: unknown): number | null {
  if (typeof time !== 'string') return null
  const whole = time.length === 10 ? `${time}T00:00:00` : time
  const ms = Date.parse(/(Z|[+-]\d\d:\d\d)$/.test(whole) ? whole : `${whole}-03:00`)
  return ms * 1000 + Number(/\.\d{3}(\d{3})/.exec(whole)?.[1] ?? 0)
}

/** When the present day began in Brasília. */
const TODAY =
  Date.parse(`${new Date(Date.now() - 3 * 3_600_000).toISOString().slice(0, 10)}T00:00:00-03:00`) * 1000

const SORTED: Readonly<Record<string, (edital: Notice) => number | null>> = {
  session: ({ data_sessao }) => instantOf(data_sessao),
  value: ({ valor_estimado }) => valor_estimado ?? null,
  created: ({ created_at }) => instantOf(created_at),
  updated: ({ updated_at }) => instantOf(updated_at),
  // Sessions to come, then past ones.
  next: ({ data_sessao }) => {
    const fromToday = (instantOf(data_sessao) ?? Number.NaN) - TODAY
    return Number.isNaN(fromToday) ? null : fromToday >= 0 ? fromToday : 1e17 - fromToday
  },
}

function textsOfParts(analysis: unknown): unknown[] {
  const { items = [], requirements = [] } = (analysis ?? {}) as Record<string, Record<string, unknown>[]>
  return [...items.map(({ descricao }) => descricao), ...requirements.map(({ title }) => title)]
}

/** The same search in plain JavaScript. */
function oracle(entries: readonly Entry[], wanted: Parameters): string[] {
  const {
    q,
    uf,
    status,
    verdict,
    modalidade,
    session_from,
    session_to,
    value_min,
    value_max,
    updated_from,
    sort,
  } = wanted
  const day = (text: string) => Date.parse(`${text}T00:00:00-03:00`) * 1000
  const found = entries.filter(({ edital: { ...notice }, analysis }) => {
    const edital = notice as unknown as Notice
    const session = instantOf(edital.data_sessao)
    const value = edital.valor_estimado ?? null
    const { recommendation } = (analysis as { verdict?: { recommendation?: string } } | null)?.verdict ?? {}
    const [, text, where] = TEXTS.find(([one]) => one === q) ?? []
    const own = `${edital.objeto}; ${edital.orgao}; ${edital.numero}`
    const parts = where === 'own' ? [] : textsOfParts(analysis)
    return (
      (!uf || uf.split(',').includes(edital.uf ?? '')) &&
      (!status || status.split(',').includes(edital.status)) &&
      (!verdict || verdict.split(',').includes(recommendation ?? '')) &&
      (!modalidade || folded(edital.modalidade ?? '').includes(modalidade)) &&
      (!session_from || (session !== null && session >= day(session_from))) &&
      (!session_to || (session !== null && session < day(session_to) + 86_400_000_000)) &&
      (!updated_from || (instantOf(edital.updated_at) as number) >= day(updated_from)) &&
      (!value_min || (value !== null && value >= Number(value_min))) &&
      (!value_max || (value !== null && value <= Number(value_max))) &&
      (!text || text.test(folded([own, ...parts].join('; '))))
    )
  })
  const [, sign, key = ''] = /^(-?)(.*)$/.exec(sort ?? '-created') as unknown as string[]
  const keyOf = SORTED[key] as (edital: Notice) => number | null
  const newestFirst = found.sort(
    ({ edital: a }, { edital: b }) =>
      (instantOf(b.created_at) as number) - (instantOf(a.created_at) as number) || (a.id < b.id ? -1 : 1),
  )
  return newestFirst
    .map(({ edital }) => ({ id: edital.id, value: keyOf(edital as unknown as Notice) }))
    .sort((a, b) => {
      if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null)
      return sign === '-' ? b.value - a.value : a.value - b.value
    })
    .map(({ id }) => id)
}

const some = (values: readonly string[]) =>
  fc.subarray([...values], { minLength: 1 }).map(chosen => chosen.join())
const day = fc.integer({ min: -200, max: 60 }).map(days => {
  return new Date(Date.UTC(2026, 10, 20) + days * 86_400_000).toISOString().slice(0, 10)
})

const FILTERS = {
  q: fc.constantFrom(...TEXTS.map(([q]) => q)),
  uf: some(['SP', 'RJ', 'MG', 'BA', 'RS', 'PR']),
  status: some(STATUSES),
  verdict: some(['participar', 'cautela', 'nao_recomendado']),
  modalidade: fc.constantFrom('pregao', 'presencial', 'dispensa'),
  session_from: day,
  session_to: day,
  updated_from: day,
  value_min: fc.integer({ min: 0, max: 200_000 }).map(String),
  value_max: fc.integer({ min: 50_000, max: 900_000 }).map(String),
}
const NAMES = Object.keys(FILTERS) as (keyof typeof FILTERS)[]

/** With all filters at once, nothing would match. */
const SEARCHES = fc
  .tuple(
    fc.record(FILTERS),
    fc.subarray(NAMES, { maxLength: 3 }),
    fc.constantFrom(...Object.keys(SORTED).flatMap(key => (key === 'next' ? [key] : [key, `-${key}`]))),
  )
  .map(
    ([filters, chosen, sort]): Parameters => ({
      ...Object.fromEntries(chosen.map(name => [name, filters[name]])),
      sort,
    }),
  )

/** What nobody can ask for; it has an answer of its own. */
function contradicts({
  session_from = '',
  session_to = '9',
  value_min = '0',
  value_max = '1e9',
}: Parameters): boolean {
  return session_from > session_to || Number(value_min) > Number(value_max)
}

test('the best matches come first: the word itself in singular or plural before words of the same stem', async () => {
  const api = await serveObjects([
    'Serviço médico, com médicos, médicas e perícia médica',
    'Registro de preços para a eventual aquisição de medicamentos da rede municipal de saúde e dos postos',
    'Aquisição de medicamento',
    'Reforma de escola',
    'Transporte escolar',
  ])
  const order = async (q: string) =>
    (await idsOf(api, { q })).map(id => [1, 2, 3, 4, 5].find(number => idOf(number) === id))
  expect(await order('medicamentos')).toEqual([3, 2, 1])
  expect(await order('medicamento')).toEqual([3, 2, 1])
  expect(await order('médicos')).toEqual([1, 3, 2])
  expect(await order('escolar')).toEqual([5, 4])
  expect(await order('escolares')).toEqual([5, 4])
})

test('filters, text and order are those of a plain filter over all notices, on whatever pages', async () => {
  const start = new Date('2026-11-20T12:00:00Z')
  const world = generateWorld({ seed: '7', company: 'aurora', notices: 300, start })
  const entries = world.ids().map(id => world.entry(id) as Entry)
  const api = await serveApi((await startSynced(world)).environment)
  let matches = 0
  const check = async (wanted: Parameters, limit: number) => {
    const parameters = { ...wanted, limit: String(limit) }
    const expected = oracle(entries, parameters)
    const ids: unknown[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: Page = await search(api, { ...parameters, ...(cursor && { cursor }) })
      expect(page).toMatchObject({ total: expected.length, count: page.editais.length })
      ids.push(...page.editais.map(({ id }) => id))
      cursor = page.next
    }
    expect(ids, JSON.stringify(parameters)).toEqual(expected)
    matches += expected.length
  }
  await fc.assert(
    fc.asyncProperty(
      SEARCHES.filter(wanted => !contradicts(wanted)),
      fc.integer({ min: 40, max: 200 }),
      check,
    ),
    { seed: 21, numRuns: 120 },
  )
  expect(matches).toBeGreaterThan(1000)
  for (const [q] of TEXTS) await check({ q, sort: '-created' }, 150)
})

test('a notice is found by any form of its words, with or without accents, and by phrases and beginnings', async () => {
  const api = await serveObjects([
    'Aquisição de materiais hospitalares',
    'Aquisições de papéis e combustíveis para o município',
    'SERVIÇO DE MANUTENÇÃO PREDIAL; limpeza',
    'Manutenções e limpezas: serviços gerais',
  ])
  const found = async (q: string) => (await idsOf(api, { q })).sort()
  const numbers = (...some: number[]) => some.map(idOf)
  expect(await found('aquisicao')).toEqual(numbers(1, 2))
  expect(await found('AQUISIÇÕES')).toEqual(numbers(1, 2))
  expect(await found('material hospitalar')).toEqual(numbers(1))
  expect(await found('papel combustivel')).toEqual(numbers(2))
  expect(await found('manutenção')).toEqual(numbers(3, 4))
  expect(await found('limpeza serviço')).toEqual(numbers(3, 4))
  // Punctuation separates words and not phrases; the words of a phrase are next to one another.
  expect(await found('"predial limpeza"')).toEqual(numbers(3))
  expect(await found('"serviço de manutenção" limpeza')).toEqual(numbers(3))
  expect(await found('"manutenção serviço"')).toEqual([])
  // A phrase is in one text: the buyer does not continue the object.
  expect(await found('"limpeza prefeitura"')).toEqual([])
  expect(await found('limpeza prefeitura')).toEqual(numbers(3, 4))
  expect(await found('hosp*')).toEqual(numbers(1))
  expect(await found('manutencoe*')).toEqual(numbers(4))
  // Stop words count only in phrases, or alone.
  expect(await found('manutenção de')).toEqual(numbers(3, 4))
  expect(await found('"manutenção de"')).toEqual([])
  expect(await found('para')).toEqual(numbers(2))
})

test('with text, the best matches come first: rare words count more, and short texts', async () => {
  const api = await serveObjects([
    'Aquisição de pneus',
    'Aquisição de cadeiras, mesas, armários, estantes, arquivos e outros móveis para escritório, e de pneus',
    'Aquisição de cadeiras',
    'Aquisição de mesas',
  ])
  expect(await idsOf(api, { q: 'aquisição pneu' })).toEqual([idOf(1), idOf(2)])
  expect((await idsOf(api, { q: 'aquisição' })).at(-1)).toBe(idOf(2))
  const first = await search(api, { q: 'aquisição', limit: '2' })
  const next = await search(api, { q: 'aquisição', limit: '2', cursor: first.next as string })
  expect([...first.editais, ...next.editais].map(({ id }) => id)).toEqual(
    await idsOf(api, { q: 'aquisição' }),
  )
  expect(await refusal(api, { sort: 'relevance' })).toMatchObject({
    status: 400,
    detail: 'sort: relevance needs q.',
  })
})

test('notices are as the contract has them, with the verdict; or with the chosen fields', async () => {
  const { environment } = await startSynced([noticeEntry(1, { uf: 'SP' }), bareNotice(2)])
  const api = await serveApi(environment)
  const { editais: original } = await api.json<{ editais: Record<string, unknown>[] }>('/api/v1/editais')
  const { editais } = await search(api, { sort: 'created' })
  // The first is from November, the second from October.
  const [first, second] = original
  expect(editais).toEqual([second, { ...first, verdict: { recommendation: 'participar' } }])
  const chosen = await search(api, { fields: 'objeto,verdict,uf', sort: 'created' })
  expect(chosen.editais).toEqual([
    { objeto: 'Objeto 2' },
    { objeto: 'Objeto 1', uf: 'SP', verdict: { recommendation: 'participar' } },
  ])
  const { headers } = await api.ask(pathOf({ q: 'objeto' }))
  expect(headers['x-data-as-of']).toMatch(/^\d{4}-/)
  const again = await api.ask(pathOf({ q: 'objeto' }), {
    headers: { 'if-none-match': headers.etag as string },
  })
  expect(again).toMatchObject({ status: 304, body: Buffer.alloc(0) })
})

test('a search goes on in its snapshot while others are published, and ten minutes longer', async () => {
  const company = await startSynced(notices(1, 9))
  let now = new Date()
  const api = await serveApi(company.environment, { now: () => now })
  const first = await search(api, { limit: '4' })
  const unread = await search(api, { limit: '200' })
  for (const number of [20, 21]) {
    company.world.put(noticeEntry(number))
    company.world.remove(idOf(number - 18))
    await publish(company, api)
  }
  now = new Date(now.getTime() + 9 * 60_000)
  const second = await search(api, { limit: '4', cursor: first.next as string })
  const third = await search(api, { limit: '4', cursor: second.next as string })
  expect(second.snapshot).toBe(first.snapshot)
  const read = [first, second, third].flatMap(({ editais }) => editais)
  expect(read).toEqual(unread.editais)
  expect(third).toMatchObject({ count: 1, total: 9, next: null })
  expect((await api.ask(pathOf({ limit: '4', cursor: first.next as string }))).headers['x-data-as-of']).toBe(
    (await api.ask(pathOf({ limit: '4', cursor: second.next as string }))).headers['x-data-as-of'],
  )
  expect(await idsOf(api, {})).toContain(idOf(21))

  now = new Date(now.getTime() + 11 * 60_000)
  expect(await refusal(api, { limit: '4', cursor: first.next as string })).toEqual({
    status: 410,
    error: 'snapshot_gone',
    detail: expect.stringContaining('Begin again without cursor.'),
  })
})

test('a cursor outlives a restart, but neither another search nor another company can use it', async () => {
  const company = await startSynced(notices(1, 9))
  const { environment } = company
  const dataDir = environment.DATA_DIR as string
  const other = await startSynced(notices(50, 52))
  await cp(join(other.environment.DATA_DIR as string, 'acme'), join(dataDir, 'boreal'), {
    recursive: true,
    verbatimSymlinks: true,
  })
  const before = await serveApi(environment)
  const { next } = await search(before, { limit: '4', q: 'objeto' })
  const cursor = next as string
  await before.close()
  const api = await serveApi(environment, { companies: ['acme', 'boreal'] })
  expect(await search(api, { limit: '5', q: 'objeto', cursor })).toMatchObject({ count: 5, next: null })
  for (const others of [{ q: 'município', cursor }, { cursor }, { q: 'objeto', sort: 'value', cursor }]) {
    expect(await refusal(api, others)).toMatchObject({
      status: 400,
      detail: 'cursor: it belongs to another search. Send the parameters of the first page with it.',
    })
  }
  const foreign = { key: api.keys.boreal as string }
  expect((await api.ask(pathOf({ q: 'objeto', cursor }), foreign)).status).toBe(410)
  expect(await api.json<Page>(pathOf({ q: 'objeto' }), foreign)).toMatchObject({ total: 3 })
  const unusual = ['x', '', 'W10', Buffer.from('[1,2,3]').toString('base64url'), 'é'.repeat(300)]
  for (const text of unusual) expect(await refusal(api, { cursor: text })).toMatchObject({ status: 400 })
})

test('each wrong parameter is named, with what it must be', async () => {
  const api = await serveObjects(['Pneus'])
  const details: Readonly<Record<string, Parameters>> = {
    'uf: must be states such as SP, with commas between them.': { uf: 'São Paulo' },
    'status: must be of screening, analysis,': { status: 'won' },
    'verdict: must be of participar, cautela, nao_recomendado': { verdict: 'sim' },
    'value_min: must be an amount in BRL such as 150000 or 99.90.': { value_min: 'R$ 3' },
    'value_min is above value_max, so nothing matches.': { value_min: '3', value_max: '2.5' },
    'session_from: must be a day such as 2026-12-31 or a time such as': { session_from: '31/12/2026' },
    'session_to: there is no 2026-02-30.': { session_to: '2026-02-30' },
    'session_from is above session_to': { session_from: '2026-12-02', session_to: '2026-12-01' },
    'sort: must be one of session, -session,': { sort: 'price' },
    'fields: must be of id, pncp_id,': { fields: 'id,secret' },
    'modalidade: must be modalities, each with a word': { modalidade: 'pregao,' },
    'limit: must be a whole number from 1 to 200.': { limit: '201' },
    'q: must have at most 500 characters.': { q: 'a'.repeat(501) },
    'q: it has 40 words; at most 32 are allowed.': {
      q: Array.from({ length: 40 }, (_, n) => `palavra${n}`).join(' '),
    },
    'q: it has no word to search for.': { q: '🚜 \0 --' },
    'q: p* is too short: a prefix has 2 letters or more.': { q: 'p*' },
    'search has no parameter order. It takes q, uf,': { order: 'x' },
  }
  for (const [detail, parameters] of Object.entries(details)) {
    const refused = await refusal(api, parameters)
    expect(refused).toMatchObject({ status: 400, error: 'invalid_parameter' })
    expect(refused.detail).toContain(detail)
  }
})

test('whatever the text of a search or of a notice, there is an answer', async () => {
  const giant = `${'palavra '.repeat(60_000)}fim`
  const api = await serveObjects([giant, '🚜\u0000 NEAR("x" AND) OR * ^ col:y', 'x'.repeat(100_000), ''])
  expect(await idsOf(api, { q: 'palavra' })).toEqual([idOf(1)])
  expect(await idsOf(api, { q: 'near col' })).toEqual([idOf(2)])
  const piece = fc.constantFrom(
    ...[
      '"',
      '*',
      'NEAR(',
      ' OR ',
      '🚜',
      '\0',
      'de ',
      'a',
      'palavra',
      "'; DROP",
      '\u0301',
      ' ',
      '-',
      '^x:',
      '%',
    ],
  )
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 40 }), async pieces => {
      const { status } = await api.ask(pathOf({ q: pieces.join('') }))
      expect([200, 400]).toContain(status)
    }),
    { seed: 21, numRuns: 100 },
  )
  expect((await api.ask(`${SEARCH}?q=%ff%fe%00&limit=1`)).status).toBe(200)
  expect((await api.ask(`${SEARCH}?q=${'a%20'.repeat(1000)}`)).status).toBe(400)
})

test('a notice is found by its number, its identifier and its buyer’s CNPJ, however they are written, and by its items', async () => {
  const api = await serveApi(
    (
      await startSynced([
        noticeEntry(
          1,
          {
            numero: 'PE 90.220/2026',
            pncp_id: '12345678000195-1-000123/2026',
            objeto: 'Material',
            orgao: 'Prefeitura',
          },
          { items: [{ descricao: 'Papel A4 75 g' }], requirements: [{ title: 'Balanço patrimonial' }] },
        ),
        noticeEntry(
          2,
          {
            numero: 'PCE 290',
            pncp_id: '00394494000136-2026-0042',
            objeto: 'Papel para o prédio 290',
            orgao: 'Câmara',
          },
          { items: [{ descricao: 'Tinta' }], requirements: [] },
        ),
        noticeEntry(3, { numero: '0147/2026', objeto: 'Obra', orgao: 'Câmara' }, { items: [] }),
      ])
    ).environment,
  )
  const found = async (q: string) =>
    (await idsOf(api, { q })).map(id => [1, 2, 3].find(one => idOf(one) === id))
  for (const q of ['90220/2026', '90.220/2026', 'pe 90220', '12.345.678/0001-95', '12345678000195'])
    expect(await found(q), q).toEqual([1])
  for (const q of ['12345678000195-1-000123/2026', '12345678000195-2026-123'])
    expect(await found(q), q).toEqual([1])
  for (const q of ['PCE 290', '394494000136', '00.394.494/0001-36']) expect(await found(q), q).toEqual([2])
  for (const q of ['147/2026', '0147']) expect(await found(q), q).toEqual([3])
  expect(await found('balanço')).toEqual([1])
  // In the notice's own text it counts more than in an item.
  expect(await found('papel')).toEqual([2, 1])
  expect(await found('"a4 75"')).toEqual([])
  expect(await found('"PCE 290"')).toEqual([2])
  // The `-1-` of an identifier is no number.
  expect(await found('cnpj 1')).toEqual([])
  expect(await found('7/2026')).toEqual([])
  expect(await found('12.345.678/0001*')).toEqual([])
})
