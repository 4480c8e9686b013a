/** Markup that is safe to insert into a page: all text in it is escaped. */
export type Html = { readonly html: string }

type Part = Html | string | number | null | undefined | false | readonly Part[]

/** Renders a template of markup: escapes inserted values, except other markup. Null, undefined and false insert nothing. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return { html: strings.reduce((text, next, index) => text + markup(parts[index - 1]) + next) }
}

/** Marks a text as markup that was created, and escaped, elsewhere. */
export function trustMarkup(text: string): Html {
  return { html: text }
}

function markup(part: Part): string {
  if (part === null || part === undefined || part === false) return ''
  if (typeof part === 'string') return escapeText(part)
  if (typeof part === 'number') return String(part)
  return 'html' in part ? part.html : part.map(markup).join('')
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeText(text: string): string {
  return text.replaceAll(/[&<>"']/g, character => ENTITIES[character] ?? '')
}
