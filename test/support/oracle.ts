import { isUtf8 } from 'node:buffer'

/*
 * The expected result for a document, by the contract (docs/contract.md) and by the rules for deviations
 * (docs/internals/fetch.md#validation). It shares no code with `src/` or `schema/`: if the two differ, one of them is
 * wrong.
 */

type Kind = 'text' | 'number' | 'integer' | 'boolean' | 'moment' | 'id'

type Spec =
  | { readonly is: Kind; readonly words?: readonly string[] }
  | { readonly is: 'object'; readonly members: Members }
  | { readonly is: 'list'; readonly each: Spec }
  /** Any value is kept; another kind, or a member that is not listed, is reported. */
  | { readonly is: 'free'; readonly kind: 'object' | 'text'; readonly members?: Members }

/** Names of required members end in `!`. */
type Members = Readonly<Record<string, Spec>>

const text: Spec = { is: 'text' }
const number: Spec = { is: 'number' }
const integer: Spec = { is: 'integer' }
const boolean: Spec = { is: 'boolean' }
const moment: Spec = { is: 'moment' }
const freeObject: Spec = { is: 'free', kind: 'object' }
const word = (...words: string[]): Spec => ({ is: 'text', words })
const listOf = (members: Members): Spec => ({ is: 'list', each: { is: 'object', members } })

const SHARED: Members = {
  'id!': { is: 'id' },
  'pncp_id!': text,
  'status!': word('screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired'),
  orgao: text,
  objeto: text,
  numero: text,
  modalidade: text,
  uf: text,
  pncp_url: text,
  valor_estimado: number,
  data_sessao: moment,
}

const NOTICE: Members = {
  ...SHARED,
  'participation_confirmed!': boolean,
  discard_reason: text,
  committed_at: moment,
  'created_at!': moment,
  'updated_at!': moment,
}

const ANALYSIS: Members = {
  ...SHARED,
  'analysis_level!': word('none', 'simple', 'medium', 'deep'),
  'analyzed!': boolean,
  'verdict!': {
    is: 'object',
    members: {
      recommendation: word('participar', 'cautela', 'nao_recomendado'),
      reason: text,
      summary: text,
      bullets: { is: 'list', each: { is: 'free', kind: 'text' } },
    },
  },
  overview: {
    is: 'free',
    kind: 'object',
    members: { lei_aplicavel: text, prazo_impugnacao: text, is_srp: boolean, exclusivo_me_epp: boolean },
  },
  'requirements!': listOf({
    category: word(
      ...['habilitacao_juridica', 'qualificacao_tecnica', 'qualificacao_economica', 'regularidade_fiscal'],
      ...['regularidade_trabalhista', 'declaracoes', 'amostras', 'visita_tecnica', 'certificacoes'],
      ...['garantias', 'programa_integridade', 'outros'],
    ),
    title: text,
    required: text,
    current: text,
    ai_notes: text,
    metadata: freeObject,
    status: word('red', 'yellow', 'green'),
  }),
  'items!': listOf({
    numero_item: integer,
    descricao: text,
    quantidade: number,
    unidade_medida: text,
    valor_unitario_estimado: number,
    valor_total: number,
    material_ou_servico: word('M', 'S'),
    numero_lote: integer,
    criterio_julgamento_nome: text,
    ai_selected: boolean,
    ai_reasoning: text,
    ai_confidence: number,
  }),
  'alerts!': listOf({
    type: word('risk', 'opportunity', 'info'),
    severity: word('critical', 'high', 'medium', 'low'),
    title: text,
    description: text,
    legal_thesis: text,
    action_type: word('impugnacao', 'esclarecimento', 'recurso', 'contrarrazao', 'none'),
  }),
  pricing: {
    is: 'object',
    members: {
      investimento_total: number,
      garantia_proposta: number,
      garantia_contratual: number,
      margem_min: number,
      margem_max: number,
      is_srp: boolean,
      sigiloso: boolean,
      risco_pagamento: word('', 'baixo', 'medio', 'alto', 'critico', 'desconhecido'),
    },
  },
  orgao_report: { is: 'object', members: { payment_risk: text, status: text } },
  operational: freeObject,
}

const MEMBERS = { notice: NOTICE, analysis: ANALYSIS }

/** A document may have at most 100 levels of brackets. */
const MAX_LEVELS = 100

export type Root = 'notice' | 'analysis'
export type Document = Record<string, unknown>

export type Judgement =
  /** Any of these places is a correct location of the fault. */
  | { readonly usable: false; readonly faults: ReadonlySet<string> }
  | {
      readonly usable: true
      /** Strings are well formed, wrong types null, date-times as written. */
      readonly document: Document
      /** `<kind> <path>` of every deviation from the contract. */
      readonly drift: ReadonlySet<string>
      /** Whether the document holds everything in the bytes. */
      readonly whole: boolean
    }

/** @param expectedId the requested notice; null if the document itself identifies it. */
export function judge(bytes: Buffer, root: Root, expectedId: string | null): Judgement {
  const sent = new TextDecoder('utf-8').decode(bytes)
  const value = parsed(sent)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return unusable('$')
  if (levels(value, 0) > MAX_LEVELS) return unusable('$')
  const found: Found = { faults: new Set(), drift: new Set(), nulled: false }
  const document = wellFormed(value) as Document
  checkMembers(document, MEMBERS[root], { exact: '', name: root, open: false }, found)
  if (expectedId !== null && document.id !== expectedId) found.faults.add('id')
  if (found.faults.size > 0) return { usable: false, faults: found.faults }
  const whole = !found.nulled && isUtf8(bytes) && sameTokens(sent, JSON.stringify(document))
  return { usable: true, document, drift: found.drift, whole }
}

function unusable(place: string): Judgement {
  return { usable: false, faults: new Set([place]) }
}

function parsed(sent: string): unknown {
  try {
    return JSON.parse(sent)
  } catch {
    return undefined
  }
}

/** Levels of brackets; stops counting beyond the limit, so that a deep document cannot overflow the stack. */
function levels(value: unknown, above: number): number {
  if (typeof value !== 'object' || value === null) return above
  if (above > MAX_LEVELS) return above
  return Object.values(value).reduce<number>(
    (most, each) => Math.max(most, levels(each, above + 1)),
    above + 1,
  )
}

function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(wellFormed)
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key.toWellFormed(), wellFormed(each)]),
  )
}

type Found = { readonly faults: Set<string>; readonly drift: Set<string>; nulled: boolean }
/** The place in this document, its name in reports, and whether unknown members are allowed there. */
type Place = { readonly exact: string; readonly name: string; readonly open: boolean }

function checkMembers(object: Document, members: Members, place: Place, found: Found): void {
  const known = new Set<string>()
  for (const [declared, spec] of Object.entries(members)) {
    const name = declared.replace('!', '')
    known.add(name)
    const at = {
      exact: place.exact ? `${place.exact}.${name}` : name,
      name: `${place.name}.${name}`,
      open: place.open,
    }
    const value = Object.hasOwn(object, name) ? object[name] : undefined
    if (value === undefined || value === null) {
      if (name !== declared) found.faults.add(at.exact)
    } else if (!check(value, spec, at, found)) {
      found.drift.add(reported('wrong_type', at.name))
      if (name !== declared) found.faults.add(at.exact)
      else if (!place.open) {
        object[name] = null
        found.nulled = true
      }
    }
  }
  if (place.open) return
  for (const name of Object.keys(object)) {
    if (!known.has(name)) found.drift.add(reported('unknown_field', `${place.name}.${name}`))
  }
}

/** False if the value as a whole violates the contract. */
function check(value: unknown, spec: Spec, at: Place, found: Found): boolean {
  if (spec.is === 'list') {
    if (!Array.isArray(value)) {
      found.faults.add(at.exact)
      return true
    }
    for (const [index, each] of value.entries()) {
      const here = { exact: `${at.exact}[${index}]`, name: `${at.name}[]`, open: false }
      if (!check(each, spec.each, here, found)) found.faults.add(here.exact)
    }
    return true
  }
  if (spec.is === 'free') {
    const fits = spec.kind === 'text' ? typeof value === 'string' : isObject(value)
    if (!fits) found.drift.add(reported('wrong_type', at.name))
    else if (spec.members) checkMembers(value as Document, spec.members, { ...at, open: true }, found)
    return true
  }
  if (spec.is === 'object') {
    if (isObject(value)) checkMembers(value, spec.members, { ...at, open: false }, found)
    return isObject(value)
  }
  if (spec.words && typeof value === 'string' && !spec.words.includes(value)) {
    found.drift.add(reported('unknown_enum', at.name))
  }
  return isOf(spec.is, value)
}

function isOf(kind: Kind, value: unknown): boolean {
  if (kind === 'text') return typeof value === 'string'
  if (kind === 'number') return Number.isFinite(value)
  if (kind === 'integer') return Number.isSafeInteger(value)
  if (kind === 'boolean') return typeof value === 'boolean'
  if (kind === 'moment') return typeof value === 'string' && microsOf(value) !== null
  return typeof value === 'string' && isPlainId(value)
}

function isPlainId(id: string): boolean {
  if (id === '.' || id === '..' || id.length === 0 || id.length > 200) return false
  return Array.from(id).every(sign =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:@+=-'.includes(sign),
  )
}

function isObject(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function reported(kind: string, path: string): string {
  return `${kind} ${path.slice(0, 200).toWellFormed()}`
}

const MOMENT =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,18}))?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?)?$/
const LOCAL = 'America/Sao_Paulo'
const known = new Map<string, readonly bigint[] | null>()

/**
 * Microseconds since 1970. Two values if the clocks showed the local time twice, or skipped it: both are valid.
 * Null if the text is not a moment.
 */
export function microsOf(written: string): readonly bigint[] | null {
  let micros = known.get(written)
  if (micros === undefined) {
    if (known.size > 10_000) known.clear()
    micros = readMoment(written)
    known.set(written, micros)
  }
  return micros
}

function readMoment(written: string): readonly bigint[] | null {
  const [matched, year, month, day, hour = 0, minute = 0, second = 0, fraction = '', offset] =
    MOMENT.exec(written) ?? []
  if (matched === undefined || Number(year) === 0) return null
  const parts = { year, month, day, hour, minute, second }
  const numbers = Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, Number(part)]))
  let local: Temporal.PlainDateTime
  try {
    local = Temporal.PlainDateTime.from(numbers as unknown as Temporal.PlainDateTimeLike, {
      overflow: 'reject',
    })
  } catch {
    return null
  }
  const beyond = BigInt(fraction.slice(0, 6).padEnd(6, '0'))
  const inZone = (zone: string, disambiguation: 'earlier' | 'later') =>
    local.toZonedDateTime(zone, { disambiguation }).epochNanoseconds / 1000n + beyond
  if (offset === undefined) return [inZone(LOCAL, 'later'), inZone(LOCAL, 'earlier')]
  if (/z/i.test(offset)) return [inZone('UTC', 'later')]
  const [hours, minutes] = [Number(offset.slice(1, 3)), Number(offset.slice(3).replace(':', '') || 0)]
  if (hours > 15 || minutes > 59) return null
  const minutesAhead = BigInt((hours * 60 + minutes) * (offset.startsWith('-') ? -1 : 1))
  return [inZone('UTC', 'later') - minutesAhead * 60_000_000n]
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[-+.0-9eE]+|true|false|null|[{}[\]:,]/g

/** Whether two valid JSON texts are equivalent, including duplicates, their order, and every digit. */
function sameTokens(a: string, b: string): boolean {
  if (a === b) return true
  const [left, right] = [a.match(TOKEN) ?? [], b.match(TOKEN) ?? []]
  return (
    left.length === right.length &&
    left.every((token, i) => token === right[i] || meant(token) === meant(right[i] ?? ''))
  )
}

function meant(token: string): string {
  if (token.startsWith('"')) return JSON.stringify(JSON.parse(token))
  return /^[-\d]/.test(token) ? exact(token) : token
}

/** The sign, the digits without leading and trailing zeros, and the power of ten of the last digit. */
function exact(token: string): string {
  const [, sign, whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(token) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  const last = BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return `${sign}${significant}e${last}`
}

/** A value of a column: an array means any of its values, `json` means equivalent JSON text. */
export type Expected = string | number | boolean | null | readonly bigint[] | { readonly json: unknown }
export type ExpectedRow = Readonly<Record<string, Expected>>

/** The row of `editais` for a notice, without columns that depend on the run. */
export function editalRow(document: Document): ExpectedRow {
  const [, cnpj = null, year, sequence] =
    /^(\d{14})-(\d{4})-(\d+)$/.exec(String(document.pncp_id)) ?? ([] as string[])
  const inRange = sequence !== undefined && BigInt(sequence) < 2n ** 63n
  return {
    ...scalars(document, ['pncp_id', 'orgao', 'objeto', 'numero', 'modalidade', 'uf', 'valor_estimado']),
    ...scalars(document, ['pncp_url', 'status', 'participation_confirmed', 'discard_reason']),
    ...moments(document, ['data_sessao', 'committed_at', 'created_at', 'updated_at']),
    orgao_cnpj: cnpj,
    pncp_ano: year === undefined ? null : Number(year),
    pncp_sequencial: inRange ? Number(sequence) : null,
  }
}

/** The row of `analyses` for an analysis. */
export function analysisRow(document: Document): ExpectedRow {
  const part = (name: string) => (isObject(document[name]) ? (document[name] as Document) : {})
  const overview = part('overview')
  const flag = (name: string) => (typeof overview[name] === 'boolean' ? overview[name] : null)
  const worded = [
    ...['orgao_licitante', 'lei_aplicavel', 'valor_estimado', 'prazo_impugnacao', 'locais_entrega'],
    ...['restricoes_participacao', 'atestado_capacidade_exigido', 'visita_tecnica_obrigatoria'],
  ]
  return {
    ...scalars(document, ['analysis_level', 'analyzed']),
    ...prefixed('verdict_', scalars(part('verdict'), ['recommendation', 'reason', 'summary'])),
    verdict_bullets: json(part('verdict').bullets),
    ...Object.fromEntries(worded.map(name => [`overview_${name}`, asWorded(overview[name])])),
    overview_is_srp: flag('is_srp'),
    overview_exclusivo_me_epp: flag('exclusivo_me_epp'),
    overview: json(document.overview),
    ...prefixed(
      'pricing_',
      scalars(part('pricing'), [
        ...['investimento_total', 'garantia_proposta', 'garantia_contratual', 'margem_min', 'margem_max'],
        ...['risco_pagamento', 'is_srp', 'sigiloso'],
      ]),
    ),
    ...prefixed('orgao_report_', scalars(part('orgao_report'), ['payment_risk', 'status'])),
    operational: json(document.operational),
  }
}

const CHILDREN = {
  requirements: ['category', 'title', 'required', 'current', 'status', 'ai_notes'],
  items: [
    ...['numero_item', 'descricao', 'quantidade', 'unidade_medida', 'valor_unitario_estimado', 'valor_total'],
    ...['material_ou_servico', 'numero_lote', 'criterio_julgamento_nome'],
    ...['ai_selected', 'ai_reasoning', 'ai_confidence'],
  ],
  alerts: ['type', 'severity', 'title', 'description', 'action_type', 'legal_thesis'],
} as const

export type ChildTable = keyof typeof CHILDREN
export const CHILD_TABLES = Object.keys(CHILDREN) as readonly ChildTable[]

/** The rows of a child table for an analysis, in order. */
export function childRows(document: Document, table: ChildTable): ExpectedRow[] {
  return (document[table] as readonly Document[]).map((element, index) => ({
    ordinal: index + 1,
    ...scalars(element, CHILDREN[table]),
    ...(table === 'requirements' ? { metadata: json(element.metadata) } : {}),
  }))
}

function scalars(document: Document, names: readonly string[]): ExpectedRow {
  return Object.fromEntries(names.map(name => [name, plain(own(document, name))]))
}

function moments(document: Document, names: readonly string[]): ExpectedRow {
  return Object.fromEntries(
    names.map(name => {
      const written = own(document, name)
      return [name, typeof written === 'string' ? microsOf(written) : null]
    }),
  )
}

function own(document: Document, name: string): unknown {
  return Object.hasOwn(document, name) ? document[name] : undefined
}

function prefixed(prefix: string, row: ExpectedRow): ExpectedRow {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [prefix + name, value]))
}

/** SQL does not distinguish -0 in comparisons, and JSON.stringify writes it as 0. */
function plain(value: unknown): Expected {
  if (value === undefined || value === null) return null
  return value === 0 ? 0 : (value as Expected)
}

/** A number beyond a double's range becomes null in JSON. */
function json(value: unknown): Expected {
  const isNull = value === undefined || value === null || value === Infinity || value === -Infinity
  return isNull ? null : { json: value }
}

/** Free text: a string as it is, anything else as JSON text. */
function asWorded(value: unknown): Expected {
  return typeof value === 'string' ? value : json(value)
}

/** The first difference between a row and the expected row, as text; null if there is none. */
export function difference(expected: ExpectedRow, actual: Readonly<Record<string, unknown>>): string | null {
  for (const [name, value] of Object.entries(expected)) {
    if (!fits(value, actual[name])) {
      const shown = (each: unknown) =>
        JSON.stringify(each, (_key, part) => (typeof part === 'bigint' ? String(part) : part))?.slice(0, 500)
      return `${name} is ${shown(actual[name])}, not ${shown(value)}`
    }
  }
  return null
}

function fits(expected: Expected, actual: unknown): boolean {
  if (expected === null || typeof expected !== 'object') return expected === actual
  if (Array.isArray(expected)) {
    return (typeof actual === 'bigint' || typeof actual === 'number') && expected.includes(BigInt(actual))
  }
  if (typeof actual !== 'string') return false
  const value = (expected as { json: unknown }).json
  return (
    actual === JSON.stringify(value) ||
    sameTokens(actual, JSON.stringify(value)) ||
    sameDoubles(actual, value)
  )
}

/** DuckDB formats doubles differently when it extracts a value from a free-form object. */
function sameDoubles(actual: string, value: unknown): boolean {
  const read = parsed(actual)
  return read !== undefined && JSON.stringify(read) === JSON.stringify(value)
}
