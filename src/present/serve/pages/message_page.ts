import { html } from '#src/present/text/html.ts'
import { document } from './layout.ts'

/** One sentence, and the way back. */
export function messagePage(company: string | null, sentence: string): string {
  return document({
    title: company === null ? 'Editais' : `Editais · ${company}`,
    company,
    body: html`<section class="card narrow"><h1>Editais</h1><p>${sentence}</p><p class="more"><a href="/editais">Voltar aos editais</a></p></section>`,
  })
}
