import { NOTICE } from '#schema/notice.ts'
import { formatMoment, NONE } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { nameEvent, nameField, nameLevel, namePhase, nameVerdict } from '#src/present/text/names.ts'
import { writeFreeForm } from './free_form.ts'
import { estimate, type ShownDocument, session } from './show.ts'

/** One thing that happened to the notice; the newest comes first. */
export type Past = {
  readonly at: string
  readonly kind: string
  readonly fields?: readonly string[]
  readonly changes?: readonly Change[]
  readonly from?: string | null
  readonly to?: string | null
}

type Change = { readonly field: string; readonly before?: unknown; readonly after?: unknown }

export const MAX_HISTORY = 100
/** Longer values are only named: what they are now is on the page. */
const MAX_VALUE_CHARACTERS = 300

/** Shows the history of a notice. @param past null while it is being prepared. */
export function history(past: readonly Past[] | null, timeZone: string): Html {
  if (!past)
    return html`<p class="muted">O histórico está sendo preparado. Recarregue a página em instantes.</p>`
  if (past.length === 0) return html`<p class="muted">Nada registrado ainda.</p>`
  const events = past.map(
    one =>
      html`<li class="card"><p class="line"><b>${nameEvent(one.kind)}</b><span class="muted">${formatMoment(one.at, timeZone)}</span></p>${whatChanged(one, timeZone)}</li>\n`,
  )
  return html`<ol class="entries">${events}</ol>${
    past.length === MAX_HISTORY &&
    html`<p class="more muted">Aqui estão os ${MAX_HISTORY} eventos mais recentes.</p>`
  }`
}

function whatChanged({ fields = [], changes = [], from, to }: Past, timeZone: string): Html | null {
  if (from !== undefined || to !== undefined)
    return html`<p>${from && `De ${nameVerdict(from)} para `}${nameVerdict(to) ?? 'sem parecer'}</p>`
  // It changes whenever anything does.
  const named = fields.length > 1 ? fields.filter(field => field !== 'updated_at') : fields
  if (named.length === 0) return null
  const values = new Map(changes.map(change => [change.field, change]))
  return html`<ul class="changes">${named.map(field => html`<li>${nameField(field)}${difference(values.get(field), timeZone)}</li>`)}</ul>`
}

function difference(change: Change | undefined, timeZone: string): string | null {
  if (!change || isCompound(change.before) || isCompound(change.after)) return null
  const [before, after] = [change.before, change.after].map(value => shown(change.field, value, timeZone))
  if (before === null || after === null) return null
  return change.before === null ? `: ${after}` : `: de ${before} para ${after}`
}

function isCompound(value: unknown): boolean {
  return value === undefined || (typeof value === 'object' && value !== null)
}

const NAMES: Readonly<Record<string, (value: unknown) => string | null>> = {
  status: namePhase,
  analysis_level: nameLevel,
  valor_estimado: estimate,
} satisfies ShownDocument

const TIMES: readonly string[] = Object.entries(NOTICE).flatMap(([name, { type }]) =>
  type === 'date-time' ? [name] : [],
)

/** Returns null if it is too long. */
function shown(field: string, value: unknown, timeZone: string): string | null {
  if (value === null) return NONE
  if (TIMES.includes(field)) return session(value, timeZone)
  const name = Object.hasOwn(NAMES, field) ? NAMES[field] : undefined
  const words = (name ? name(value) : writeFreeForm(value, timeZone)) ?? NONE
  return words.length > MAX_VALUE_CHARACTERS ? null : words
}
