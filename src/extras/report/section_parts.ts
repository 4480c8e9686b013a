import { formatPlural, line, NONE, number, usableLink } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import type { BySession, Named } from './figures.ts'

/** The parts that several sections of the report share. */

/** The contents of a cell; null for an empty one. */
type Cell = Html | string | null

export type TableColumn<T> = {
  readonly head: string
  readonly kind?: 'number' | 'date' | 'wide'
  readonly cell: (row: T) => Cell
}

type Options<T> = {
  readonly caption: string
  readonly columns: readonly TableColumn<T>[]
  readonly rows: readonly T[]
}

/** Numbers only: texts need more room. */
const MAX_COLUMNS_ON_A_PHONE = 3
/** Rows that a phone shows at first, as cards; report.css has it, too. */
const ROWS_ON_A_PHONE = 3

/**
 * Returns a table whose first column names the row. On a phone each row becomes a card, so each cell has a label, and three
 * are shown until the reader asks for all. The roles keep it a table for screen readers: some browsers drop the table
 * semantics if CSS changes the layout.
 */
export function table<T>({ caption, columns, rows }: Options<T>): Html {
  // Everything else becomes cards on a phone.
  const small =
    columns.length <= MAX_COLUMNS_ON_A_PHONE && columns.slice(1).every(({ kind }) => kind === 'number')
  // Rows of numbers are less tall in print.
  const numeric = columns.slice(1).every(({ kind }) => kind === 'number')
  // Long texts need the full width even on a tablet.
  const listed = columns.slice(1).some(({ kind }) => kind === 'wide')
  const head = columns.map(
    ({ kind, head }) => html`<th role="columnheader" scope="col"${classOf(kind)}>${head}</th>`,
  )
  const body = rows.map(row => {
    const cells = columns.map(({ kind, head, cell }, index) => {
      const content = cell(row) ?? NONE
      if (index === 0) return html`<th role="rowheader" scope="row"${classOf(kind)}>${content}</th>`
      const className = classOf(content === NONE ? [kind, 'none'].filter(Boolean).join(' ') : kind)
      return html`<td role="cell"${className} data-label="${head}"><div>${content}</div></td>`
    })
    return html`<tr role="row">${cells}</tr>\n`
  })
  // It may scroll sideways, and has no link by which the keyboard could do that.
  const reachable = !small && !listed && html` tabindex="0" role="region" aria-label="${caption}"`
  const all =
    !small &&
    rows.length > ROWS_ON_A_PHONE &&
    html`<label class="all"><input type="checkbox"> Mostrar todas as linhas</label>`
  return html`<div class="table${small ? ' small' : ' cards'}${numeric && ' numeric'}${listed && ' listed'}"${reachable}><table role="table"><caption>${caption}</caption>
<thead role="rowgroup"><tr role="row">${head}</tr></thead>
<tbody role="rowgroup">
${body}</tbody></table>${all}</div>`
}

function classOf(name: string | undefined): Html | null {
  return name ? html` class="${name}"` : null
}

/** Returns a line with the number of rows that a list omits; null if it omits none. */
export function more(count: number, one: string, many: string, where = ''): Html | null {
  return count > 0
    ? html`<p class="more">… e mais ${formatPlural(count, one, many)}${where && ` ${where}`}.</p>`
    : null
}

/** Maximum characters of texts of notices. */
export const MAX_NAME = 80
export const MAX_OBJECT = 120
/** The certainty of a day that is the earlier one of several. */
export const TO_CONFIRM = 'a confirmar'
export const MAX_CODE = 30
/** One stack per category of the contract; the table below the chart has the others. */
export const MAX_STACKS = 12

/** Shows buyer, state and number of a notice, as a link if it has a usable address. */
export function noticeLink({ pncp_url, ...named }: Named): Html {
  const [name, ...rest] = nameParts(named)
  const address = usableLink(pncp_url)
  return html`${address ? html`<a href="${address}" rel="noopener noreferrer">${name}</a>` : name}${rest.map(part => ` · ${part}`).join('')}`
}

/** Names a notice by buyer, state and number, as plain text. */
export function noticeName(named: Omit<Named, 'pncp_url'>): string {
  return nameParts(named).join(' · ')
}

function nameParts({ orgao, uf, numero }: Omit<Named, 'pncp_url'>): string[] {
  const rest = [line(uf, MAX_CODE), line(numero, MAX_CODE)].filter(part => part !== null)
  return [line(orgao, MAX_NAME) ?? 'Órgão não informado', ...rest]
}

/** Formats the counts of sessions: `12 com sessão futura, 3 passadas, 1 sem data`. */
export function sessionCounts({
  futuras,
  passadas,
  sem_data,
}: Pick<BySession, 'futuras' | 'passadas' | 'sem_data'>): string {
  return `${number(futuras)} com sessão futura, ${formatPlural(passadas, 'passada', 'passadas')}, ${number(sem_data)} sem data`
}

export function badge(colour: string | undefined, text: string): Html {
  return html`<span class="badge badge-${colour ?? 'plain'}">${text}</span>`
}

export function numbers(content: Html): Html {
  return html`<details><summary>Ver os números</summary>${content}</details>`
}

export function nothing(text: string): Html {
  return html`<p class="nothing">${text}</p>`
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
