import { createRandom, type Random } from './random.ts'
import { BUYER_KINDS, CITIES, MODALITIES } from './vocabulary/buyers.ts'
import { type MarketSegment, type Product, SEGMENTS } from './vocabulary/segments.ts'

const DAY_MS = 86_400_000
const BRASILIA_OFFSET_MS = -3 * 3_600_000

/** Public facts of a tender, the same for every company that follows it. */
type Tender = {
  readonly pncp_id: string
  readonly orgao: string
  readonly objeto: string
  readonly numero?: string
  readonly modalidade?: string
  readonly uf: string
  readonly valor_estimado?: number
  readonly data_sessao?: string
  readonly pncp_url: string
}

/** The fields of an element of `items` (docs/contract.md#item) that depend on the tender alone. */
type TenderItem = {
  readonly numero_item: number
  readonly descricao: string
  readonly quantidade: number
  readonly unidade_medida: string
  readonly valor_unitario_estimado: number
  readonly valor_total: number
  readonly material_ou_servico: 'M' | 'S'
  readonly numero_lote?: number | null
  readonly criterio_julgamento_nome: string
}

/**
 * Generates a tender that reads like one from the national portal, oddities included.
 * `sequence` is its number at the buyer; the same seed, sequence and day give the same tender.
 */
export function generateTender(seed: string, sequence: number, publishedAt: Date): Tender {
  const random = createRandom(`${seed} tender ${sequence}`)
  const buyer = generateBuyer(random)
  const segment = random.pick(SEGMENTS.filter(({ boughtBy }) => boughtBy?.test(buyer.name) ?? true))
  const year = publishedAt.getUTCFullYear()
  const sequenceText = random.chance(0.05) ? String(sequence).padStart(6, '0') : String(sequence)
  const pncpId = `${buyer.cnpj}-${year}-${sequenceText}`
  const session = sessionText(random, publishedAt)
  return {
    pncp_id: pncpId,
    orgao: buyer.name,
    objeto: withOddities(
      random,
      fill(random.pick(segment.objects), { city: buyer.city, months: String(random.pick([6, 12, 24, 36])) }),
    ),
    ...(random.chance(0.98) && { numero: numberText(random, year) }),
    ...(random.chance(0.99) && { modalidade: random.weighted(MODALITIES) }),
    uf: buyer.uf,
    ...estimatedValue(random, generateItems(pncpId, segment)),
    ...(session !== null && { data_sessao: session }),
    pncp_url: `https://pncp.gov.br/app/editais/${buyer.cnpj}/${year}/${sequence}`,
  }
}

/** Returns the segment that matches an object's words; an unknown object gets one by its length. */
export function chooseSegment(objeto: unknown): MarketSegment {
  const text = String(objeto ?? '').replace(/\s+/gu, ' ')
  const segment = SEGMENTS.find(({ words }) => words.test(text)) ?? SEGMENTS[text.length % SEGMENTS.length]
  if (!segment) throw new RangeError('There is no segment.')
  return segment
}

/** Returns a tender's items. They depend only on its `pncp_id` and segment. */
export function generateItems(pncpId: string, segment: MarketSegment): TenderItem[] {
  const random = createRandom(`${withDigits(pncpId)} items`)
  // Log-normal: the median is the segment's; one tender in a hundred has twenty times as many.
  const count = Math.min(360, Math.max(1, Math.round(segment.items * Math.exp(random.normal() * 1.15))))
  const lots = random.chance(0.3) ? random.int(1, Math.ceil(count / 4)) : 0
  const first = random.chance(0.02) ? random.int(1_000_000, 1_700_000) : 1
  const criterion = random.weighted([
    ['Menor preço', 80],
    ['Maior desconto', 12],
    ['Técnica e preço', 5],
    ['Não se aplica', 3],
  ] as const)
  return Array.from({ length: count }, (_, index) => {
    const product = random.pick(segment.products)
    return {
      ...amounts(random, product),
      numero_item: first + index,
      descricao: itemText(random, segment, product),
      material_ou_servico: segment.materialOrService,
      criterio_julgamento_nome: criterion,
      ...(lots > 0 ? { numero_lote: 1 + (index % lots) } : random.chance(0.5) && { numero_lote: null }),
    }
  })
}

/**
 * Since July 2026, new CNPJs may have letters. These buyers' differ from their earlier ones in three places, and in
 * nothing else.
 */
const LETTERS = 'ABCDEFGHIJ'
const LETTERS_SHARE = 0.1

function withLetters(root: string): string {
  const letters = [...root.slice(2, 5)].map(digit => LETTERS[Number(digit)])
  return root.slice(0, 2) + letters.join('') + root.slice(5)
}

/** Returns the identifier that the buyer would have without letters: a tender's items are those of that one. */
function withDigits(pncpId: string): string {
  const [cnpj = '', ...rest] = pncpId.split('-')
  const root = cnpj.slice(0, 8).replace(/[A-J]/gu, letter => String(LETTERS.indexOf(letter)))
  return [/^\d*$/u.test(cnpj) ? cnpj : makeCnpj(root), ...rest].join('-')
}

/** Returns a CNPJ for a root of eight characters and a branch of four, with its two check digits. */
export function makeCnpj(root: string, branch = '0001'): string {
  const base = root + branch
  const first = checkDigit(base, [5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2])
  return `${base}${first}${checkDigit(`${base}${first}`, [6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2])}`
}

/** Returns an instant as Brasília's wall clock, `YYYY-MM-DDTHH:MM:SS`, without an offset. */
export function formatBrasiliaTime(instant: Date): string {
  return new Date(instant.getTime() + BRASILIA_OFFSET_MS).toISOString().slice(0, 19)
}

function checkDigit(digits: string, weights: readonly number[]): number {
  // A digit counts as itself, and a letter by its place in ASCII after them.
  const valueAt = (index: number) => digits.charCodeAt(index) - 48
  const rest = weights.reduce((sum, weight, index) => sum + weight * valueAt(index), 0) % 11
  return rest < 2 ? 0 : 11 - rest
}

function generateBuyer(random: Random): { cnpj: string; name: string; city: string; uf: string } {
  const [city, uf] = random.pick(CITIES)
  const capitals = city.normalize('NFD').replace(/\p{M}/gu, '').toUpperCase()
  const name = fill(random.weighted(BUYER_KINDS), { c: city, C: capitals, uf })
  const root = createRandom(`cnpj ${name}`).int(10_000_000, 99_999_999)
  const hasLetters = createRandom(`cnpj letters ${name}`).chance(LETTERS_SHARE)
  return { cnpj: makeCnpj(hasLetters ? withLetters(String(root)) : String(root)), name, city, uf }
}

function fill(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{(\w+)\}/gu, (whole, name: string) => values[name] ?? whole)
}

function numberText(random: Random, year: number): string {
  const number = random.int(1, 400)
  return random.pick([
    String(90_000 + number),
    `${String(number).padStart(3, '0')}/${year}`,
    `PE ${number}`,
    `${number}-${year}`,
    `PCE ${number}`,
  ])
}

/** Portals do not clean text: real objects have these oddities, in about these shares. */
function withOddities(random: Random, text: string): string {
  let odd = text
  if (random.chance(0.06))
    odd = `[${random.pick(['LICITANET', 'Portal de Compras Públicas', 'BLL'])}] - ${odd}`
  if (random.chance(0.08)) odd = odd.toUpperCase()
  if (random.chance(0.05)) odd = odd.replace(', ', ',\u00a0')
  if (random.chance(0.04)) odd = odd.replace(', ', ',\r\n')
  if (random.chance(0.05)) odd = odd.replace(' para ', '  para ')
  if (random.chance(0.05)) odd = ` ${odd}`
  if (random.chance(0.1)) odd = `${odd}. `
  if (random.chance(0.02)) odd = `${odd}\u200b`
  if (random.chance(0.01)) odd = `- ${odd}`
  return odd
}

function itemText(random: Random, segment: MarketSegment, [name]: Product): string {
  const [one, two] = random.sample(segment.specifications, 2)
  const text = `${name}, ${one}${random.chance(0.3) && two ? `; ${two}` : ''}`
  return random.weighted([
    [text, 90],
    [`${text} `, 5],
    [text.toUpperCase(), 4],
    [`<p>${text}</p>`, 1],
  ])
}

function amounts(random: Random, [, unit, price]: Product) {
  // The more expensive the product, the fewer: from tens of thousands of ampoules to a few centrifuges.
  const scale = Math.max(1.5, 8 - 0.7 * Math.log(price))
  const quantity = random.chance(0.02)
    ? Math.round(random.next() * 1e6 + 1) / 1e4
    : Math.round(Math.exp(random.next() * scale))
  const decimals = price < 20 && random.chance(0.4) ? 1e4 : 1e2
  const unitPrice = Math.round(price * (0.7 + random.next() * 0.6) * decimals) / decimals
  return {
    quantidade: quantity,
    unidade_medida: random.chance(0.05) ? `${unit} ` : unit,
    valor_unitario_estimado: unitPrice,
    valor_total: cents(quantity * unitPrice),
  }
}

function estimatedValue(random: Random, items: readonly TenderItem[]): { valor_estimado?: number } {
  const published = cents(items.reduce((sum, { valor_total }) => sum + valor_total, 0))
  const kind = random.weighted([
    ['published', 845],
    ['secret', 120],
    ['absent', 32],
    ['sentinel', 3],
  ] as const)
  if (kind === 'absent') return {}
  return { valor_estimado: { published, secret: 0, sentinel: 9999999999999.99 }[kind] }
}

function cents(value: number): number {
  return Math.round(value * 100) / 100
}

/** Draws a session, days or weeks after publication; rarely before it or years ahead; sometimes not set. */
function sessionText(random: Random, publishedAt: Date): string | null {
  const days = random.weighted([
    [random.int(8, 35), 960],
    [random.int(36, 70), 26],
    [-random.int(1, 20), 10],
    [1095, 4],
  ])
  const day = formatBrasiliaTime(new Date(publishedAt.getTime() + days * DAY_MS)).slice(0, 10)
  const time = `${random.pick(['08', '09', '09', '09', '10', '10', '13', '14'])}:${random.pick(['00', '00', '00', '30'])}`
  return random.weighted([
    [`${day}T${time}:00`, 620],
    [`${day}T${time}:00-03:00`, 270],
    [`${day}T${time}`, 35],
    [`${day}T${time}:00.000`, 20],
    [`${day}T${time}:00.000000000-03:00`, 5],
    [day, 10],
    [null, 40],
  ])
}
