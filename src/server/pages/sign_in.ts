import { html } from '#src/present/text/html.ts'
import { document } from './layout.ts'

type SignIn = {
  /** Why an earlier key was refused. */
  readonly problem: string | null
  /** Path of the report for operators, who have a token instead of a key. */
  readonly reportPath: string | null
  /** The page that was asked for; absent if it is the first one. */
  readonly wanted?: string | null
}

/** Returns the form for a key. */
export function signInPage({ problem, reportPath, wanted = null }: SignIn): string {
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
${reportPath !== null && html`<p>Quem opera o serviço vê o <a href="${reportPath}">relatório</a> com o token de administração.</p>`}
</section>`,
  })
}
