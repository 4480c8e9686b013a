import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { until } from '#test/support/daemon.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const HOSTILE = '<script>alert(1)</script>"\'&\u202e'

/** Until then, pages come without it. */
async function historyReady(ask: ServedApi['ask']): Promise<void> {
  await until(async () => (await ask('/api/v1/mirror/changes')).status === 200, {
    what: () => 'the index of the changes',
  })
}

type Answered = { readonly status: number; readonly text: string; readonly headers: Headers }

/** A browser without scripts: it keeps one cookie and follows no redirect. */
function browse(url: string) {
  let cookie: string | null = null
  const send = async (path: string, init: RequestInit = {}): Promise<Answered> => {
    const headers = { ...(cookie ? { cookie } : {}), ...init.headers }
    const answer = await fetch(url + path, { redirect: 'manual', ...init, headers })
    const set = answer.headers.get('set-cookie')
    if (set !== null) cookie = /Max-Age=0/.test(set) ? null : (set.split(';')[0] as string)
    return { status: answer.status, text: await answer.text(), headers: answer.headers }
  }
  const post = (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) =>
    send(path, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { origin: url, ...headers },
    })
  return { get: (path: string) => send(path), post }
}

test('a person signs in with a key, searches, reads a notice with its analysis and history, and signs out', async () => {
  const entries = [
    noticeEntry(1, { objeto: 'Aquisição de merenda escolar', uf: 'SP' }, {}),
    noticeEntry(2, { objeto: 'Obras de pavimentação', uf: 'RJ' }, {}),
    noticeEntry(
      3,
      { objeto: HOSTILE, uf: 'SP', pncp_url: 'javascript:alert(1)' },
      { alerts: [{ title: HOSTILE, description: HOSTILE }] },
    ),
  ]
  const { environment } = await startSynced(entries)
  const { url, keys, store, lines, ask } = await serveApi(environment)
  const person = browse(url)

  const door = await person.get('/editais')
  expect(door.status).toBe(401)
  expect(door.text).toContain('name="chave"')
  expect(door.headers.get('content-security-policy')).toContain("default-src 'none'")
  const wrong = await person.post('/editais/entrar', { chave: `edk_00000000_${'0'.repeat(64)}` })
  expect(wrong.status).toBe(401)
  expect(wrong.text).toContain('Esta chave não é válida')
  const unreadable = await fetch(`${url}/editais/entrar`, {
    method: 'POST',
    body: 'x',
    headers: { 'content-type': 'multipart/form-data', origin: url },
  })
  expect(unreadable.status).toBe(400)
  expect(await unreadable.text()).toContain('O formulário não pôde ser lido')
  expect(lines.join('')).not.toContain('"level":"error"')
  const elsewhere = await person.post(
    '/editais/entrar',
    { chave: keys.acme as string },
    { origin: 'https://evil.example' },
  )
  expect(elsewhere.status).toBe(403)
  const entered = await person.post('/editais/entrar', { chave: ` ${keys.acme} ` })
  expect(entered).toMatchObject({ status: 303 })
  expect(entered.headers.get('set-cookie')).toMatch(/Path=\/editais; HttpOnly; SameSite=Lax$/)
  const kept = await person.post('/editais/entrar', { chave: `${keys.acme}`, manter: 'sim' })
  expect(kept.headers.get('set-cookie')).toMatch(/Max-Age=2592000; Path=\/editais; HttpOnly; SameSite=Lax$/)

  // Sessions to come are listed first, and none of these has one.
  const first = await person.get('/editais')
  expect(first.text).toContain('Nenhum edital encontrado.')
  expect(first.text).toMatch(/aria-current="page">Próximas sessões \(0\).*Em andamento \(3\).*Todos \(3\)/s)
  const list = await person.get('/editais?ver=todos')
  expect(list.text).toContain('3 editais.')
  expect(list.text).not.toContain('<script>')
  expect(list.text).not.toContain('\u202e')
  expect(list.text).not.toContain(keys.acme)
  // The address that a form sends is made short.
  const sent = await person.get('/editais?q=merendas&uf=SP&fase=&parecer=&de=&ate=&ordem=')
  expect([sent.status, sent.headers.get('location')]).toEqual([302, '/editais?q=merendas&uf=SP'])
  const found = await person.get('/editais?q=merendas&uf=SP')
  expect(found.text).toContain('1 edital.')
  expect(found.text).toContain('Aquisição de merenda escolar')
  expect(found.text).toContain('value="merendas"')
  const marked = await person.get('/editais?de=2026-02-31&minimo=5')
  expect(marked.text).toContain('Confira: Sessão de.')
  expect(marked.text).toMatch(/name="de" type="text" value="2026-02-31" aria-invalid="true"/)
  expect(marked.text).toMatch(/name="minimo" inputmode="decimal" value="5">/)
  // A cursor of another day begins again.
  expect((await person.get('/editais?cursor=x')).headers.get('location')).toBe('/editais')
  expect((await person.get('/editais?q=merenda&cursor=x')).status).toBe(400)
  expect((await person.get('/editais?cursor=')).headers.get('location')).toBe('/editais')
  expect((await person.get('/editais?ver=todos&q=')).headers.get('location')).toBe('/editais?ver=todos')
  const none = await person.get('/editais?q=nada+disso&uf=SP')
  expect(none.text).toContain('Nenhum edital encontrado.')
  expect(none.text).toContain(
    '<a href="/editais?uf=SP">sem “Busca”</a><a href="/editais?q=nada+disso">sem “UF”</a>',
  )

  const id = (list.text.match(/href="\/editais\/(n[^"]+)"/g) ?? []).map(link => link.slice(15, -1))
  expect(id).toHaveLength(3)
  const [hostile] = [entries[2]?.edital.id as string]
  await historyReady(ask)
  const notice = await person.get(`/editais/${hostile}`)
  expect(notice.status).toBe(200)
  expect(notice.text).toContain('Riscos e alertas (1)')
  expect(notice.text).toContain('Primeira análise')
  expect(notice.text).not.toContain('<script>')
  expect(notice.text).not.toContain('javascript:')
  expect((await person.get('/editais/none')).status).toBe(404)

  expect((await person.post('/editais/sair', {})).status).toBe(303)
  expect((await person.get('/editais')).status).toBe(401)
  await person.post('/editais/entrar', { chave: keys.acme as string })
  expect((await person.get('/editais')).status).toBe(200)
  store.revoke((keys.acme as string).slice(0, 12), new Date())
  const after = await person.get(`/editais/${hostile}`)
  expect(after.status).toBe(401)
  expect(after.text).not.toContain('Riscos')
})

test('all pages of a list lead to each notice once, and a key sees only its company', async () => {
  const { environment } = await startSynced(notices(1, 70))
  const { url, keys } = await serveApi(environment)
  const person = browse(url)
  await person.post('/editais/entrar', { chave: keys.acme as string })
  const seen: string[] = []
  const ranges: string[] = []
  for (let next: string | null = '/editais?ver=todos'; next !== null; ) {
    const { text } = await person.get(next)
    ranges.push(/role="status">([^<]*)</.exec(text)?.[1] ?? '')
    seen.push(...[...text.matchAll(/<h2><a href="\/editais\/([^"]+)"/g)].map(([, id]) => id as string))
    next = /<a href="([^"]+)" rel="next"/.exec(text)?.[1]?.replaceAll('&amp;', '&') ?? null
  }
  const all = ['1–20', '21–40', '41–60', '61–70'].map(range => `${range} de 70 editais.`)
  expect(ranges).toEqual(all)
  expect(seen).toHaveLength(70)
  expect(new Set(seen).size).toBe(70)
})

test('while the changes are prepared, pages come without the history, and hold up no other request', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const { url, keys, store, ask } = await serveApi(environment)
  // As long as somebody writes to the index, nobody can prepare it.
  const mirror = join(environment.DATA_DIR as string, 'acme', 'mirror')
  await mkdir(mirror, { recursive: true })
  const index = new DatabaseSync(join(mirror, 'feed.sqlite'))
  index.exec('PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; CREATE TABLE busy (n)')
  const order: string[] = []
  const headers = { cookie: `editais_chave=${keys.acme}` }
  const pages = Array.from({ length: 16 }, async () => {
    const text = await (await fetch(`${url}/editais/${idOf(1)}`, { headers })).text()
    order.push('page')
    return text
  })
  const key = store.create('acme', 'ERP', new Date())
  expect((await ask('/api/v1/editais', { key })).status).toBe(200)
  order.push('list')
  for (const text of await Promise.all(pages)) expect(text).toContain('O histórico está sendo preparado')
  expect(order[0]).toBe('list')
  index.close()
})

test('a person who exceeds the quota of the key is asked to wait, in Portuguese', async () => {
  const { environment } = await startSynced(notices(1, 2))
  const { url, keys, lines } = await serveApi(environment, { maxRps: 1 })
  const person = browse(url)
  await person.post('/editais/entrar', { chave: keys.acme as string })
  const answers = [await person.get('/editais'), await person.get('/editais')]
  const refused = answers.find(({ status }) => status === 429)
  expect(refused?.text).toContain('Pedidos demais.')
  expect(refused?.headers.get('content-type')).toContain('text/html')
  expect(lines.join('')).toContain('"route":"pages"')
})

test('the history of a notice has the values before and after', async () => {
  const company = await startSynced(notices(1, 1))
  company.world.update(idOf(1), {
    edital: { status: 'discarded', discard_reason: 'Prazo curto', valor_estimado: 0 },
    analysis: { verdict: { recommendation: 'cautela' }, items: [] },
    updatedAt: new Date(Date.UTC(2026, 10, 20)),
  })
  await company.syncHere()
  const { url, keys, ask } = await serveApi(company.environment)
  await historyReady(ask)
  const person = browse(url)
  await person.post('/editais/entrar', { chave: keys.acme as string })
  const { text } = await person.get(`/editais/${idOf(1)}`)
  expect(text).toContain('<li>Fase: de Análise para Descartado</li>')
  expect(text).toContain('<li>Motivo do descarte: Prazo curto</li>')
  expect(text).toContain('<li>Valor estimado: de R$\u00a01,25 para R$\u00a00,00 (pode ser sigiloso)</li>')
  expect(text).toContain('<li>Itens</li>')
  expect(text).toContain('<p>De Participar para Cautela</p>')
  expect(text).not.toContain('updated_at')
})

test('whoever follows a link to a notice gets there after signing in, and back to the search; nowhere else', async () => {
  const { environment } = await startSynced(notices(1, 40))
  const { url, keys } = await serveApi(environment)
  const key = { chave: keys.acme as string }
  const wanted = `/editais/${idOf(1)}?q=objeto&ordem=-value`
  const person = browse(url)
  const door = await person.get(wanted)
  expect(door.status).toBe(401)
  const para = /name="para" value="([^"]+)"/.exec(door.text)?.[1]?.replaceAll('&amp;', '&') ?? ''
  expect((await person.post('/editais/entrar', { chave: 'x', para })).text).toContain('name="para"')
  expect((await person.post('/editais/entrar', { ...key, para })).headers.get('location')).toBe(wanted)
  expect((await person.get(wanted)).text).toContain('href="/editais?q=objeto&amp;ordem=-value"')
  const elsewhere = ['//evil.example/editais/1', 'https://evil.example/editais/1', '/\\evil.example/editais/']
  for (const to of [...elsewhere, '/editais/../queues', '/editaisx', 'javascript:alert(1)', '/docs'])
    expect((await person.post('/editais/entrar', { ...key, para: to })).headers.get('location')).toBe(
      '/editais/hoje',
    )

  const second = /<a href="([^"]+)" rel="next"/.exec((await person.get('/editais?q=objeto')).text)?.[1]
  const page = await person.get(second?.replaceAll('&amp;', '&') ?? '')
  expect(page.text).toContain('<a href="/editais?q=objeto">Primeira página</a>')
  const link = /<h2><a href="([^"]+)"/.exec(page.text)?.[1]?.replaceAll('&amp;', '&') ?? ''
  expect((await person.get(link)).text).toContain(`href="${second}">← Voltar`)
})

test('what cannot be shown is explained on a page', async () => {
  const { environment } = await startSynced(notices(1, 2))
  const { url, keys } = await serveApi(environment, {
    ...{ companies: ['acme', 'beta'], ready: ['acme'], trustedProxies: ['127.0.0.1'] },
  })
  const person = browse(url)
  await person.post('/editais/entrar', { chave: keys.acme as string })
  expect((await person.get('/editais?de=2026-12-02&ate=2026-12-01')).text).toContain('troque as datas')
  expect((await person.get('/editais?minimo=2&maximo=1')).text).toContain('troque os valores')
  expect((await person.get('/editais?minimo=muito')).text).toContain('Confira: Valor mínimo.')
  // A replaced snapshot, and what the form cannot show.
  const cursor = Buffer.from('["20200101T000000Z-000001","x",1]').toString('base64url')
  const gone = await person.get(`/editais?q=objeto&cursor=${cursor}`)
  expect(gone.status).toBe(410)
  expect(gone.text).toContain('href="/editais?q=objeto"')
  expect((await person.get('/editais?fase=ready,pricing')).text).toContain(
    '<option value="ready,pricing" selected>',
  )
  const nowhere = await person.get('/editais/a/b')
  expect(nowhere).toMatchObject({ status: 404, text: expect.stringContaining('Este endereço não existe') })
  expect((await person.get('/editais/entrar')).text).toContain('name="chave"')
  expect((await person.get('/editais/sair')).headers.get('location')).toBe('/editais/hoje')

  const https = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.1' }
  const entered = await person.post('/editais/entrar', { chave: keys.beta as string }, https)
  expect(entered.headers.get('set-cookie')).toMatch(/Path=\/editais; HttpOnly; Secure; SameSite=Lax$/)
  const empty = await person.get('/editais')
  expect(empty).toMatchObject({ status: 503, text: expect.stringContaining('ainda não estão prontos') })
  expect(empty.headers.get('content-type')).toContain('text/html')
})

test('a link signs one person in, once, with a key of its own', async () => {
  const { environment } = await startSynced(notices(1, 2))
  const { url, lines } = await serveApi(environment)
  const keys = (...args: string[]) => runShared(['keys', ...args], environment)
  const made = await keys('link', '--description', 'Maria', '--url', url)
  expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('A link for Maria') })
  const link = new URL(made.stdout.trim())
  expect(`${link.origin}${link.pathname}`).toBe(`${url}/editais/entrar`)
  const code = link.searchParams.get('codigo') as string
  const enter = async (body: Record<string, string>) =>
    await fetch(`${url}/editais/entrar`, {
      method: 'POST',
      body: new URLSearchParams(body),
      redirect: 'manual',
    })

  // Whatever shows what a message links to opens it as well.
  for (let times = 0; times < 2; times += 1)
    expect(await (await fetch(link)).text()).toContain('Entrar neste navegador')
  // It is no key.
  const asKey = await fetch(`${url}/api/v1/editais`, { headers: { 'x-api-key': code } })
  expect(asKey.status).toBe(403)
  expect((await enter({ chave: code })).status).toBe(403)

  const entered = await enter({ codigo: code, manter: 'sim' })
  expect(entered.status).toBe(303)
  const [cookie = ''] = entered.headers.getSetCookie()
  const key = /^editais_chave=([^;]+)/.exec(cookie)?.[1] as string
  expect(key).not.toBe(code)
  expect((await fetch(`${url}/editais`, { headers: { cookie: `editais_chave=${key}` } })).status).toBe(200)
  const again = await enter({ codigo: code })
  expect([again.status, await again.text()]).toEqual([401, expect.stringContaining('Este link já foi usado')])
  const listed = await keys('list')
  expect(listed.stdout).toContain(key.slice(0, 12))
  expect(lines.join('')).not.toContain(code)

  // Revoking the link ends what it opened.
  expect(await keys('rotate', code)).toMatchObject({ code: 2 })
  expect((await keys('revoke', code)).code).toBe(0)
  expect((await fetch(`${url}/editais`, { headers: { cookie: `editais_chave=${key}` } })).status).toBe(401)
  // Signing out ends the key of a link, wherever its cookie is.
  const file = join(await temporaryDirectory(), 'companies.yaml')
  const acme = { pages_url: url, api_key_file: file }
  await writeFile(file, JSON.stringify({ companies: { acme } }))
  const { API_KEY: _, COMPANY: __, ...shared } = environment
  const withFile = { ...shared, COMPANIES_FILE: file }
  const hers = await runShared(['keys', 'link', '--description', 'Ana', '--company', 'acme'], withFile)
  expect(hers).toMatchObject({ code: 0, stderr: expect.not.stringContaining('--url') })
  const other = new URL(hers.stdout.trim())
  expect(other.origin).toBe(url)
  const her = await enter({ codigo: other.searchParams.get('codigo') as string })
  const headers = { cookie: her.headers.getSetCookie()[0]?.split(';')[0] as string }
  expect((await fetch(`${url}/editais`, { headers })).status).toBe(200)
  await fetch(`${url}/editais/sair`, { method: 'POST', headers, redirect: 'manual' })
  expect((await fetch(`${url}/editais`, { headers })).status).toBe(401)
  const revoked = new URL((await keys('link', '--description', 'João', '--url', url)).stdout.trim())
  const unused = revoked.searchParams.get('codigo') as string
  expect((await keys('revoke', unused)).code).toBe(0)
  expect((await enter({ codigo: unused })).status).toBe(401)
  for (const wrong of [
    ['--valid', '0s'],
    ['--url', 'x'],
    ['--url', `${url}/a`],
    ['--scopes', 'feed'],
    ['--company', 'nobody'],
  ])
    expect((await keys('link', '--description', 'x', ...wrong)).code, wrong.join()).toBe(2)
})
