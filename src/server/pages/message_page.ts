import { html } from '#src/present/text/html.ts'
import { document } from './layout.ts'

type Message = {
  readonly title: string
  readonly sentence: string
  /** The address of the link to continue, below our own pages. */
  readonly back?: string
}

/** Makes a page with one sentence, and a link to continue. */
export function messagePage(company: string | null, { title, sentence, back = '/editais' }: Message): string {
  return document({
    title: company === null ? title : `${title} · ${company}`,
    company,
    body: html`<section class="card narrow"><h1>${title}</h1><p>${sentence}</p><p class="more"><a href="${back}">Ir para os editais</a></p></section>`,
  })
}
