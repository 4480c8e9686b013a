import { identifier } from '#src/core/warehouse/quoted.ts'
import type { Mart, MartColumn } from '#src/marts/marts.ts'

/** Maximum UTF-16 units in a cell of Excel: a longer text makes it repair the file. */
export const MAX_CELL_TEXT = 32_767

/** Characters that XML 1.0 does not allow, for DuckDB: a workbook with one of these cannot be opened. */
export const FORBIDDEN = '[^\\t\\n\\r\\x{20}-\\x{D7FF}\\x{E000}-\\x{FFFD}\\x{10000}-\\x{10FFFF}]'
/** Characters that XML 1.0 does not allow in a JavaScript string, which can also have halves of surrogates. */
const NOT_IN_XML = new RegExp(FORBIDDEN.replaceAll('\\x', '\\u'), 'gu')
/** The beginning of a text that a spreadsheet program could run as a formula; for DuckDB, and with the flag `u`. */
export const FORMULA = '^[\\s\\p{Z}\\p{C}]*[=+@＝＋＠－-]'
/** Excel recognizes UTF-8 by this mark at the beginning of a file. */
export const BYTE_ORDER_MARK = '\uFEFF'

/** How a sheet of a workbook is printed: as wide as a page, with the headings on each. */
export const PRINTED_SHEET = {
  paperSize: 'a4',
  orientation: 'landscape',
  fitToPage: true,
  fitToWidth: 1,
  // As many as it takes.
  fitToHeight: 0,
  margins: { left: 0.3, right: 0.3, top: 0.4, bottom: 0.4 },
} as const

/** Repeats the heading of each sheet on its printed pages. The library's own option does not quote names with spaces, so programs reject them. */
export function printedHeadings(sheets: readonly { readonly name: string }[]) {
  return sheets.map(({ name }) => nameRange(name, '_xlnm.Print_Titles', '$1:$1'))
}

/** Names a range of a sheet, for the sheet itself. */
export function nameRange(sheet: string, name: string, range: string) {
  return { name, range: `'${sheet.replaceAll("'", "''")}'!${range}`, scope: sheet }
}

/** The beginning of what a workbook reads as the character with this code. */
const ESCAPED = /_(?=x[0-9A-Fa-f]{4}_)/g

/** Returns a text that is not cut within a character, with an ellipsis if it is too long for a cell. */
export function cutText(text: string): string {
  if (text.length <= MAX_CELL_TEXT) return text
  return `${text.slice(0, MAX_CELL_TEXT - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

export function hasForbidden(text: string): boolean {
  return text.search(NOT_IN_XML) !== -1
}

function withoutForbidden(text: string): string {
  return text.replaceAll(NOT_IN_XML, '')
}

/** Escapes codes, so that `_x000D_` in a text is not a line break. */
function escapeCodes(text: string): string {
  return text.replaceAll(ESCAPED, '_x005F_')
}

/**
 * Returns a text as a cell of a workbook has it. A line ends as in a cell of Excel: a carriage return would be written as `_x000D_`,
 * which many programs show. Characters that XML does not allow are left out.
 */
export function cleanForWorkbook(text: string): string {
  return escapeCodes(cutText(withoutForbidden(text).replaceAll(/\r\n?/g, '\n')))
}

/** Whether a row is of a notice that can still be acted on. */
const OPEN = "(em_andamento AND situacao_sessao <> 'passada')"
const COMING = "(situacao_sessao = 'futura') DESC, abs(dias_ate_sessao), edital_id"

/** Orders rows: what is to come first, nearest first; observations, latest first. Other marts sort themselves. */
const ORDER: Readonly<Record<string, string>> = {
  fases: 'fase_ordem',
  rotulos: 'coluna, ordem',
  feriados: 'dia, uf NULLS FIRST, feriado',
  calendario: 'dia',
  editais_ativos: COMING,
  edital_resumo: COMING,
  riscos_pagamento: 'edital_id',
  prazos_calculados: 'ultimo_dia_impugnacao DESC, edital_id',
  prazos_impugnacao: 'ultimo_dia_impugnacao DESC, edital_id',
  passagens_por_fase: 'entrou_em DESC, edital_id',
  transicoes_de_fase: 'observado_em DESC, edital_id',
  pendencias_habilitacao: `${COMING}, ordinal`,
  alertas_juridicos:
    '(dias_ate_prazo >= 0) DESC NULLS LAST, abs(dias_ate_prazo), data_sessao_dia DESC, severidade_ordem, edital_id, ordinal',
  itens_selecionados: 'data_sessao_dia DESC NULLS LAST, edital_id, ordinal',
  sessoes_antecipadas: 'observado_em DESC, edital_id',
  mudancas: 'observado_em DESC, edital_id, campo',
  mudancas_parecer: 'observado_em DESC, edital_id',
  mudancas_analise: 'observado_em DESC, edital_id, parte, titulo, de, para',
  leituras: 'terminou_em DESC, run_id',
}

/**
 * Returns the `FROM` of a mart whose rows people read from top to bottom, company by company.
 * @param relation the mart, or what has its columns.
 */
export function inOrder({ name, columns }: Mart, relation = identifier(name)): string {
  const order = ORDER[name]
  if (order === undefined) return `FROM ${relation}`
  const company = columns.some(column => column.name === 'company') ? 'company, ' : ''
  const open = distinguishesOpen(columns) ? `${OPEN} DESC, ` : ''
  return `FROM ${relation} ORDER BY ${company}${open}${order}`
}

/** What other marts are computed from: people read those. */
const TECHNICAL = [
  ...['editais_ativos', 'riscos_pagamento', 'prazos_impugnacao', 'passagens_por_fase', 'fases', 'rotulos'],
  ...['feriados', 'calendario', 'grafias', 'leituras', 'prazos_calculados', 'republicacoes'],
]

export function isTechnical({ name }: { readonly name: string }): boolean {
  return TECHNICAL.includes(name)
}

const FOR_PROGRAMS = [
  ...['edital_id', 'contado_no_edital', 'pncp_id', 'ordinal', 'snapshot'],
  // Messages of this program, in English.
  'ultima_execucao_erro',
]

/**
 * Returns whether people need a column: not ids, orders, times in UTC, and codes, whose labels are in another column.
 * @param hasCompanies whether there are rows of several companies.
 */
export function isForPeople({ name, type, portuguese: [label] }: MartColumn, hasCompanies: boolean): boolean {
  if (name === 'company') return hasCompanies
  const isOrder = /(^|_)ordem$/.test(name)
  return !(isOrder || FOR_PROGRAMS.includes(name) || type === 'TIMESTAMPTZ' || label.endsWith('(código)'))
}

/** Returns how many decimals people read of a column's numbers; null: as they came. Computed ones have more than anyone reads. */
export function findDecimals({ type, unit, from }: MartColumn): number | null {
  if (type === 'DOUBLE' && unit === 'days') return 1
  return unit === 'BRL' || (type === 'DOUBLE' && from === undefined) ? 2 : null
}

/** Returns whether rows of notices that can still be acted on come first. */
export function distinguishesOpen(columns: Mart['columns']): boolean {
  return ['em_andamento', 'situacao_sessao'].every(part => columns.some(({ name }) => name === part))
}
