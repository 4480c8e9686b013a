import { html } from '#src/present/text/html.ts'
import { document } from './layout.ts'

/**
 * Returns the form for a key.
 * @param problem why an earlier key was refused.
 * @param wanted the page that was asked for; null if it is the first one.
 */
export function signInPage(problem: string | null, wanted: string | null = null): string {
  return document({
    title: 'Entrar · Editais',
    company: null,
    body: html`<section class="card narrow">
<h1>Entrar</h1>
<p>Use uma chave da API deste servidor; a chave do serviço original não funciona aqui. Quem administra cria uma com <code>npm run keys -- create --description NOME</code>.</p>
${problem !== null && html`<p class="problem" role="alert" id="problema">${problem}</p>`}
<form method="post" action="/editais/entrar" class="stack">
<label for="chave">Chave da API</label>
<input id="chave" name="chave" type="password" required autocomplete="current-password" spellcheck="false" autofocus${
      problem !== null && html` aria-invalid="true" aria-describedby="problema"`
    }>
${wanted !== null && html`<input type="hidden" name="para" value="${wanted}">`}
<button type="submit">Entrar</button>
</form>
</section>`,
  })
}
