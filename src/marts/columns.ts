import type { ColumnType, Portuguese } from '#schema/columns.ts'
import { listPublishedColumns, TABLES } from '#schema/tables.ts'
import { PLAUSIBLE_YEARS } from '#schema/times.ts'
import type { MartView, Relation } from '#src/core/lake/catalog.ts'

/** Marts, and short ways to write their columns. */

export type MartColumn = Relation['columns'][number] & {
  readonly type: ColumnType | 'DATE' | 'TIMESTAMP'
  /** The column that its values come from, as `table.column`; absent if it is derived. */
  readonly from?: string
}

export type Mart = Omit<MartView, 'columns' | 'sql'> & {
  readonly columns: readonly MartColumn[]
  /** Its SQL, if it follows from other data; of most marts, it is in `src/marts/<name>.sql`. */
  readonly sql?: string
}

const BRL = 'BRL'
const DAYS = 'days'

/** Columns that are the same as in a table. */
export function same(table: string, ...names: readonly string[]): MartColumn[] {
  const columns = listPublishedColumns(TABLES.find(({ name }) => name === table) as (typeof TABLES)[number])
  return names.map(name => {
    const found = columns.find(column => column.name === name)
    if (!found) throw new Error(`${table} has no column ${name}`)
    const { type, description, portuguese, unit } = found
    return { name, type, description, portuguese, ...(unit ? { unit } : {}), from: `${table}.${name}` }
  })
}

/** Returns a column of a table under another name, or with another meaning in Portuguese. */
export function renamed(name: string, from: string, portuguese?: Portuguese): MartColumn {
  const [table = '', column = ''] = from.split('.')
  const source = same(table, column)[0] as MartColumn
  return { ...source, name, portuguese: portuguese ?? source.portuguese }
}

export function derived(
  type: MartColumn['type'],
  name: string,
  description: string,
  portuguese: Portuguese,
  unit?: string,
): MartColumn {
  return { name, type, description, portuguese, ...(unit ? { unit } : {}) }
}

type Derive = (name: string, description: string, portuguese: Portuguese) => MartColumn

export const text: Derive = (...about) => derived('VARCHAR', ...about)
export const flag: Derive = (...about) => derived('BOOLEAN', ...about)
export const count: Derive = (...about) => derived('BIGINT', ...about)
export const days: Derive = (...about) => derived('BIGINT', ...about, DAYS)
export const duration: Derive = (...about) => derived('DOUBLE', ...about, DAYS)
export const money: Derive = (...about) => derived('DOUBLE', ...about, BRL)
export const date: Derive = (...about) => derived('DATE', ...about)
export const local: Derive = (name, description, [label, emPortugues]) => {
  const { first, last } = PLAUSIBLE_YEARS
  return derived(
    'TIMESTAMP',
    name,
    `${description}, local time of SOURCE_TIMEZONE; NULL before ${first} and after ${last}`,
    [label, `${emPortugues}; vazio antes de ${first} e depois de ${last}`],
  )
}
export const moment: Derive = (...about) => derived('TIMESTAMPTZ', ...about)

/** Columns of an earlier mart. */
export function of(mart: Mart, ...names: readonly string[]): MartColumn[] {
  return names.map(name => {
    const found = mart.columns.find(column => column.name === name)
    if (!found) throw new Error(`${mart.name} has no column ${name}`)
    return found
  })
}

export const ofCompany = same('editais', 'company')
export const ofNotice = same('editais', 'company', 'edital_id')
export const fase = text('fase', 'Phase in Portuguese; a phase that is new in the API is unchanged', [
  'Fase',
  'Fase do edital: Triagem, Análise, Precificação, Pronto, Descartado ou Vencido; fase nova fica como vem',
])
export const faseOrdem = derived('INTEGER', 'fase_ordem', 'Order of the phases, 1 to 6; 9 for a new one', [
  'Ordem da fase',
  'Ordem da fase no funil, de 1 (Triagem) a 6 (Vencido); 9: fase nova',
])
export const emAndamento = flag('em_andamento', 'Whether the phase is neither discarded nor expired', [
  'Em andamento',
  'Se a fase não é descartado nem vencido; não olha a data da sessão',
])

/** Columns that several marts have. */
export const inCommon = {
  editais: count('editais', 'Live notices', [
    'Editais',
    'Quantidade de editais ativos (que ainda estão na lista)',
  ]),
  editaisEmAndamento: count('editais_em_andamento', 'Live notices that are neither discarded nor expired', [
    'Editais em andamento',
    'Quantidade de editais ativos que não estão descartados nem vencidos',
  ]),
  semValor: count('sem_valor', 'Live notices without a plausible value', [
    'Sem valor informado',
    'Quantidade de editais ativos sem valor confiável: vazio, 0 (pode ser sigiloso), simbólico ou suspeito',
  ]),
  semValorEntreEles: count('sem_valor', 'Those without a plausible value', [
    'Sem valor informado',
    'Quantidade deles sem valor confiável: vazio, 0 (pode ser sigiloso), simbólico ou suspeito',
  ]),
  valorTotal: money('valor_total', 'Sum of the plausible values; a republished notice counts once', [
    'Valor total',
    'Soma dos valores estimados informados, em BRL; não inclui os editais sem valor, e o republicado conta uma vez',
  ]),
  valorMediano: money('valor_mediano', 'Median of the plausible values', [
    'Valor mediano',
    'Mediana dos valores estimados informados, em BRL',
  ]),
  valorEmAndamento: money('valor_em_andamento', 'valor_total of notices in progress', [
    'Valor em andamento',
    'Valor total dos editais em andamento, em BRL; o republicado conta uma vez',
  ]),
  semana: date('semana', 'Monday of the week of the session', [
    'Semana',
    'Segunda-feira da semana da sessão',
  ]),
  confirmados: count('confirmados', 'Notices in which the company confirmed to take part', [
    'Editais confirmados',
    'Quantidade deles com participação confirmada',
  ]),
  motivo: text('motivo', 'Reason as given; não informado if there is none', [
    'Motivo do descarte',
    'Motivo como foi escrito; não informado quando vazio',
  ]),
  observadoEm: moment('observado_em', 'When the change was first observed', [
    'Observado em (UTC)',
    'Quando nós vimos a mudança pela primeira vez, não quando ela ocorreu',
  ]),
  observadoDia: date('observado_dia', 'Local day of observado_em', [
    'Dia da observação',
    'Dia em que nós vimos a mudança, no fuso local',
  ]),
}
