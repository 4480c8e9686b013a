import { formatPlural, line, number, usableLink } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import type { BySession, ReportedSession } from './figures.ts'

/** The parts that several sections of the report share. */

/** Maximum characters of texts of notices. */
export const MAX_NAME = 80
export const MAX_OBJECT = 120
/** The certainty of a day that is the earlier one of several. */
export const TO_CONFIRM = 'a confirmar'
export const MAX_CODE = 30
/** One stack per category of the contract; the table below the chart has the others. */
export const MAX_STACKS = 12

type Named = Pick<ReportedSession, 'orgao' | 'uf' | 'numero' | 'pncp_url'>

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
