import type { Context, Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Logger } from 'pino'
import { getMessage } from '#src/lib/errors.ts'
import { type HttpBindings, isFromElsewhere } from '#src/lib/http/outgoing.ts'
import { html } from '#src/present/text/html.ts'
import { asksForHtml } from '#src/server/contract/answers.ts'
import type { Routes } from '#src/server/contract/routes.ts'
import { type Json, Refusal } from '#src/server/contract/source.ts'
import type { Entrance } from '#src/server/entrance.ts'
import { CursorGone, type Feed } from '#src/server/feed/feed.ts'
import { isOfOperators, type KeyHolder } from '#src/server/key_file.ts'
import { SIGNED_IN_MS } from '#src/server/keys.ts'
import { LINK_UNUSABLE, type ServedCompanies } from '#src/server/served_companies.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'
import type { FileKind } from './browse.ts'
import {
  type DataState,
  describeData,
  document,
  type LastRun,
  messagePage,
  PAGE_POLICY,
  readLastRunHere,
} from './layout.ts'
import { readPagePlace, readWanted, searchAddress } from './list_page.ts'
import { MAX_HISTORY, type Past, renderNoticePage } from './notice_page.ts'
import { formatIsoDay } from './show.ts'
import type { Today, TodayReader } from './today.ts'

/** All pages begin with it. */
const PAGES_PATH = '/editais'
/** The page where readers begin. */
export const HOME_PATH = `${PAGES_PATH}/hoje`

/** The files of a search. */
const FILES = [
  ['calendario.ics', 'calendar'],
  ['lista.csv', 'table'],
  ['lista.xlsx', 'workbook'],
] as const

const SIGN_IN_PATH = `${PAGES_PATH}/entrar`
const COOKIE = 'editais_chave'
/** Which snapshots of *Hoje* a key has seen; its prefix follows. */
const VISITS_COOKIE = 'editais_visitas'
/** How long a browser that is asked to keep the key does so, unless it is revoked. */
const KEPT_SECONDS = 30 * 24 * 3600
const VISITS_SECONDS = 180 * 24 * 3600
/** Pages that are opened within this time are one visit. */
const VISIT_MS = 30 * 60_000
/** Addresses are taken apart as if we were there. */
const HERE = 'http://here.invalid'
/** Maximum size of the form with the key. */
const MAX_FORM_BYTES = 4096
/** Maximum length of the address of the page that a form leads to. */
const MAX_ADDRESS_CHARACTERS = 2000
/** Without it, the page says that the history is being prepared. */
const HISTORY_WITHIN_MS = 1500
/** A larger analysis would take as much time and memory here as a hundred usual ones. */
const MAX_SHOWN_BYTES = 4 * 1024 * 1024

type Env = { Bindings: Partial<HttpBindings>; Variables: { holder: KeyHolder; dataState: DataState | null } }
type PageContext = Context<Env>

type PagesOptions = {
  readonly served: ServedCompanies
  readonly entrance: Entrance
  /** Where operators go on, if this server has pages for them; the first one is where they begin. */
  readonly operatorPaths?: readonly string[]
  readonly log: Logger
  readonly now?: () => Date
  /** How the last run of a company ended, on whichever host it was; by default, what this disk knows. */
  readonly readLastRun?: (company: string) => Promise<LastRun>
}

/**
 * Pages for people who have an API key: they sign in with it, browse, search and read notices. The browser keeps the key in
 * a cookie that no script can read, and that is sent only to these pages, and to those of operators if the key may see them;
 * each request checks it anew, so a revoked key sees nothing more.
 */
export function routePages(app: Routes, options: PagesOptions): void {
  const { served, entrance, log, operatorPaths = [], now = () => new Date() } = options
  const { readLastRun = company => readLastRunHere(served.findLake(company)) } = options
  const door = { entrance, operatorPaths }
  const pages: Hono<Env> = app
  pages.use('*', errorsAsPages)
  pages.use(`${PAGES_PATH}/*`, async (context: PageContext, next) => {
    const { exchange } = context.env.outgoing ?? {}
    if (exchange) {
      exchange.onEnd = entrance.noteAnswer
      exchange.notes.route = 'pages'
    }
    await next()
    context.header('Cache-Control', 'no-store')
    context.header('Content-Security-Policy', PAGE_POLICY)
    context.header('Vary', 'Cookie')
    // Without it, browsers send `Origin: null` with our own forms, and we could not distinguish them from those of others.
    context.header('Referrer-Policy', 'same-origin')
  })
  routeDoor(pages, door, served)
  /** Documents take turns, as those of the API do. */
  const inTurn = async (context: PageContext, work: () => Promise<Response>) => {
    const isWanted = () => !context.env.outgoing?.destroyed
    return (await entrance.inTurn(context.var.holder, isWanted, work)) ?? context.body(null)
  }
  // The address of a calendar has a key of its own, for programs that cannot sign in.
  pages.get(`${PAGES_PATH}/${FILES[0][0]}`, async (context: PageContext, next) => {
    const key = context.req.query('chave')
    if (key === undefined) return await next()
    return await withCalendarKey(context, key, entrance, () =>
      file(context, 'calendar', { served, now, todayReader, inTurn }),
    )
  })
  pages.use(`${PAGES_PATH}/*`, async (context: PageContext, next) => {
    const refused = await shown(context, () => signedIn(context, door))
    if (refused) return refused
    context.set(
      'dataState',
      await readDataState(context.var.holder.company, { served, log, now, readLastRun }),
    )
    await next()
    return undefined
  })
  for (const [name, kind] of FILES)
    pages.get(`${PAGES_PATH}/${name}`, context =>
      shown(context, () => file(context, kind, { served, now, todayReader, inTurn })),
    )
  pages.get(PAGES_PATH, context =>
    shown(context, async () => {
      const { browse } = await import('./browse.ts')
      const { holder, dataState } = context.var
      const about = { holder, served, now: now(), dataState }
      return await inTurn(context, () => browse(context, about))
    }),
  )
  let reader: Promise<TodayReader> | null = null
  // Loaded with the first page: most servers have none to show.
  const todayReader = () => {
    reader ??= import('./today.ts').then(({ TodayReader }) => new TodayReader(served, log))
    return reader
  }
  routeToday(pages, { served, now, todayReader })
  pages.get(`${PAGES_PATH}/:id`, (context: PageContext) =>
    shown(context, async () => {
      const { company } = context.var.holder
      const snapshot = served.getSnapshot(company)
      // Before its turn, because it may wait for the changes to be prepared.
      const history = await readHistory(served.getFeed(company), snapshot, context.req.param('id') ?? '')
      const today = (await todayReader()).peek(company, now())
      return await inTurn(context, () => read(context, { snapshot, history, today, now: now() }))
    }),
  )
  pages.get(`${PAGES_PATH}/*`, (context: PageContext) => missing(context, NO_PAGE))
}

type Words = { readonly title: string; readonly sentence: string }

const NO_PAGE = { title: 'Página não encontrada', sentence: 'Este endereço não existe.' }
const NOT_READY = { title: 'Ainda não está pronto', sentence: 'Tente de novo em instantes.' }
const TOO_MANY = { title: 'Espere um pouco', sentence: 'Pedidos demais. Tente de novo em instantes.' }
const ERRORS: Readonly<Record<number, Words>> = {
  403: { title: 'Sem permissão', sentence: 'Esta chave não abre esta página.' },
  404: NO_PAGE,
  409: NOT_READY,
  429: TOO_MANY,
  503: NOT_READY,
}
const OTHER_ERROR = { title: 'Não deu certo', sentence: 'O pedido não pôde ser atendido.' }

/** Shows an error to a person as a page; programs get it as JSON. */
async function errorsAsPages(context: PageContext, next: () => Promise<void>): Promise<void> {
  await next()
  const { status, headers } = context.res
  if (status < 400 || !headers.get('content-type')?.startsWith('application/json')) return
  context.header('Vary', 'Accept', { append: true })
  if (!asksForHtml(context)) return
  const { error, detail = '' } = (await context.res.clone().json()) as { error?: string; detail?: string }
  if (error === undefined) return
  const page = messagePage(null, { ...(ERRORS[status] ?? OTHER_ERROR), detail })
  context.header('Content-Security-Policy', PAGE_POLICY)
  context.res = context.html(page, status as ContentfulStatusCode) as Response
}

/** The form for a key, and the way out. */
function routeDoor(pages: Hono<Env>, door: Door, served: Pick<ServedCompanies, 'signOut'>): void {
  const tooLarge = (context: Context) => context.html(signInPage('A chave é longa demais.'), 413)
  pages.post(SIGN_IN_PATH, bodyLimit({ maxSize: MAX_FORM_BYTES, onError: tooLarge }), context =>
    shown(context, () => signIn(context, door)),
  )
  pages.post(`${PAGES_PATH}/sair`, context => {
    if (isFromElsewhere(context.req.raw.headers)) return context.html(signInPage(FROM_ELSEWHERE), 403)
    served.signOut(readSignedInKey(context) ?? '')
    signOut(context, [PAGES_PATH, ...door.operatorPaths])
    return context.redirect(HOME_PATH, 303)
  })
  pages.get(SIGN_IN_PATH, context => {
    const code = context.req.query('codigo')
    // Only its button uses the link: programs that show what a message links to open it, too.
    if (code !== undefined) return context.html(linkPage(code))
    return context.html(signInPage(null, ownPage(context.req.query('para'), door)))
  })
  // Reached by reloading the page that refused a form.
  pages.get(`${PAGES_PATH}/sair`, context => context.redirect(HOME_PATH, 303))
}

function routeToday(
  pages: Hono<Env>,
  {
    served,
    now,
    todayReader,
  }: Required<Pick<PagesOptions, 'served' | 'now'>> & { todayReader: () => Promise<TodayReader> },
): void {
  pages.get(HOME_PATH, context =>
    shown(context, async () => {
      const { company } = context.var.holder
      const snapshot = served.getSnapshot(company)
      const { timeZone } = snapshot
      const today = await (await todayReader()).read(company, now())
      const { todayPage } = await import('./today.ts')
      const lastVisit = noteVisit(context, snapshot, now())
      const { dataState } = context.var
      return context.html(todayPage({ company, dataState, timeZone, now: now(), today, lastVisit }))
    }),
  )
}

type FileSources = Pick<Required<PagesOptions>, 'served' | 'now'> & {
  readonly todayReader: () => Promise<TodayReader>
  readonly inTurn: (context: PageContext, work: () => Promise<Response>) => Promise<Response>
}

async function file(
  context: PageContext,
  kind: FileKind,
  { served, now, todayReader, inTurn }: FileSources,
): Promise<Response> {
  const { company } = context.var.holder
  const snapshot = served.getSnapshot(company)
  const { deadlines } = await (await todayReader()).read(company, now())
  const { sendFile } = await import('./browse.ts')
  const today = formatIsoDay(snapshot.timeZone, now())
  return await inTurn(context, () => sendFile(context, { company, snapshot, served, today, deadlines }, kind))
}

/** Answers a calendar program in text: it shows no page. A key that may do more has no place in an address. */
async function withCalendarKey(
  context: PageContext,
  key: string,
  entrance: Entrance,
  answer: () => Promise<Response>,
): Promise<Response> {
  try {
    const holder = entrance.whose(key)
    if (!holder) {
      await entrance.refuseLate(context.env.outgoing?.exchange?.address ?? '')
      return context.text(WRONG_KEY, 401)
    }
    if (holder.scopes.join() !== 'calendar') return context.text(NOT_FOR_ADDRESSES, 403)
    // Which notices a filter leaves would show their verdicts.
    if (context.req.query('parecer') !== undefined) return context.text(NO_VERDICTS, 403)
    admit(context, entrance, holder)
    return await answer()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (error.retryAfterSeconds !== null) context.header('Retry-After', String(error.retryAfterSeconds))
    return context.text(refusalInWords(error).sentence, error.status)
  }
}

const NO_VERDICTS = 'Esta chave não lê pareceres: tire o parecer do endereço.'

const NOT_FOR_ADDRESSES =
  'Esta chave pode mais do que ler o calendário, e por isso não pode estar em um endereço. Crie outra: editais keys create --description NOME --scopes calendar'
const FROM_ELSEWHERE = 'O pedido veio de outra página e foi recusado.'
const WRONG_LINK = 'Este link já foi usado, expirou ou não está inteiro. Peça outro a quem administra.'
const WRONG_KEY =
  'Esta chave não é válida: confira se foi copiada inteira, se não expirou e se não foi revogada.'

type Door = Required<Pick<PagesOptions, 'entrance' | 'operatorPaths'>>

/** Returns the key in the cookie of a browser that has signed in; null without one. */
export function readSignedInKey(context: Context): string | null {
  return getCookie(context, COOKIE) ?? null
}

/** Lets the browser forget its key for these paths. */
export function signOut(context: Context, paths: readonly string[]): void {
  for (const path of paths) deleteCookie(context, COOKIE, { path })
}

/** Returns the address of the form for a key that leads on to a page of ours. */
export function signInFor(wanted: string): string {
  return `${SIGN_IN_PATH}?${new URLSearchParams({ para: wanted })}`
}

async function signIn(context: PageContext, door: Door): Promise<Response> {
  const { entrance, operatorPaths } = door
  if (isFromElsewhere(context.req.raw.headers)) return context.html(signInPage(FROM_ELSEWHERE), 403)
  const form = await context.req.parseBody().catch(() => null)
  if (!form) return context.html(signInPage('O formulário não pôde ser lido. Tente de novo.'), 400)
  const { chave, codigo, para, manter } = form
  const wanted = ownPage(para, door)
  const key =
    typeof codigo === 'string'
      ? (entrance.redeem(codigo) ?? '')
      : typeof chave === 'string'
        ? chave.trim()
        : ''
  const { address = '', isSecure = false } = context.env.outgoing?.exchange ?? {}
  const holder = entrance.whoOperates(key, address)
  if (!holder) {
    entrance.refuse(address)
    return context.html(signInPage(typeof codigo === 'string' ? WRONG_LINK : WRONG_KEY, wanted), 401)
  }
  const forNotices = holder.scopes.includes('read') ? [PAGES_PATH] : []
  const opened = [...forNotices, ...(holder.scopes.some(isOfOperators) ? operatorPaths : [])]
  const next = wanted ?? (forNotices.length > 0 ? HOME_PATH : opened[0]) ?? HOME_PATH
  if (!isBelow(opened, next)) return context.html(signInPage(noScope(next), wanted), 403)
  admit(context, entrance, holder)
  for (const path of opened)
    setCookie(context, COOKIE, key, {
      ...{ path, httpOnly: true, sameSite: 'Lax', secure: isSecure },
      // Otherwise, until the browser is closed.
      ...(manter === 'sim' && { maxAge: typeof codigo === 'string' ? SIGNED_IN_MS / 1000 : KEPT_SECONDS }),
    })
  return context.redirect(next, 303)
}

/** Returns an address of our own pages; null for any other, which a stranger may have put into the form. */
function ownPage(text: unknown, { operatorPaths }: Pick<Door, 'operatorPaths'>): string | null {
  if (typeof text !== 'string' || text.length > MAX_ADDRESS_CHARACTERS || !URL.canParse(text, HERE))
    return null
  const { origin, pathname, search } = new URL(text, HERE)
  const isOurs = origin === HERE && isBelow([PAGES_PATH, ...operatorPaths], pathname)
  const address = pathname + search
  return isOurs && address !== HOME_PATH ? address : null
}

function isBelow(paths: readonly string[], address: string): boolean {
  return paths.some(
    path => address === path || address.startsWith(`${path}/`) || address.startsWith(`${path}?`),
  )
}

function noScope(address: string): string {
  const scope = isBelow([PAGES_PATH], address) ? 'read' : 'operate'
  return `Esta chave não abre esta página: falta o escopo ${scope}.`
}

/** Returns the form for those who have not signed in; null for the others, whose key is noted. */
async function signedIn(context: PageContext, { entrance, operatorPaths }: Door): Promise<Response | null> {
  const key = readSignedInKey(context)
  const { pathname, search } = new URL(context.req.url)
  const wanted = ownPage(pathname + search, { operatorPaths })
  if (key === null) return context.html(signInPage(null, wanted), 401)
  const holder = entrance.whose(key)
  if (!holder?.scopes.includes('read')) {
    signOut(context, [PAGES_PATH])
    if (!holder) await entrance.refuseLate(context.env.outgoing?.exchange?.address ?? '')
    return context.html(signInPage(holder ? noScope(PAGES_PATH) : WRONG_KEY, wanted), 401)
  }
  admit(context, entrance, holder)
  return null
}

/** Admits the holder of a key. @throws Refusal (429) if the key sent too many requests. */
function admit(context: PageContext, entrance: Entrance, holder: KeyHolder): void {
  context.set('holder', holder)
  const { notes } = context.env.outgoing?.exchange ?? {}
  if (notes) Object.assign(notes, { company: holder.company, key: holder.prefix })
  entrance.admit(holder)
}

/** Returns a page instead of JSON for what cannot be shown now. */
async function shown<T extends Response | null>(
  context: PageContext,
  page: () => Promise<T>,
): Promise<T | Response> {
  try {
    return await page()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (error.retryAfterSeconds !== null) context.header('Retry-After', String(error.retryAfterSeconds))
    const company = (context.var.holder as KeyHolder | undefined)?.company ?? null
    return context.html(messagePage(company, refusalInWords(error)), error.status)
  }
}

function refusalInWords({ status, message, code }: Refusal): Words {
  if (status === 400) return { title: 'Confira a busca', sentence: message }
  if (code === LINK_UNUSABLE)
    return { title: 'Ainda não', sentence: 'O link não pode ser usado agora. Tente de novo em instantes.' }
  if (status === 429) return TOO_MANY
  const sentence = `Os dados desta empresa ainda não estão prontos aqui. ${NOT_READY.sentence}`
  return { ...NOT_READY, sentence }
}

const NO_NOTICE = {
  title: 'Edital não encontrado',
  sentence: 'Este edital não existe aqui, ou foi removido da origem.',
}

function missing(context: PageContext, message: Words): Response | Promise<Response> {
  return context.html(messagePage(context.var.holder.company, message, context.var.dataState), 404)
}

type Shown = {
  readonly now: Date
  readonly snapshot: ServedSnapshot
  readonly history: readonly Past[] | null
  /** Null while it is being read. */
  readonly today: Today | null
}

async function read(context: PageContext, { snapshot, history, today, now }: Shown): Promise<Response> {
  const { timeZone } = snapshot
  const { company } = context.var.holder
  const id = context.req.param('id') ?? ''
  const notice = await snapshot.get(id)
  if (notice === null) return missing(context, NO_NOTICE)
  const stored = await snapshot.analysis(id).catch(error => {
    if (error instanceof Refusal) return null
    throw error
  })
  const isTooLarge = (stored?.bytes.length ?? 0) > MAX_SHOWN_BYTES
  const analysis = isTooLarge ? null : stored
  return context.html(
    renderNoticePage({
      ...{ company, timeZone, today: formatIsoDay(timeZone, now), dataState: context.var.dataState },
      notice: parsed(notice),
      deadline: today?.deadlines.get(id) ?? null,
      analysis: analysis && parsed(analysis),
      problem: analysis ? null : isTooLarge ? TOO_LARGE : NOT_YET,
      history,
      back: searchAddress(readWanted(context), readPagePlace(context)),
    }),
  )
}

const NOT_YET = 'A análise atual deste edital ainda não está aqui.'
const TOO_LARGE =
  'A análise deste edital é grande demais para esta página. Quem administra pode entregá-la inteira.'

type DataOptions = Required<Pick<PagesOptions, 'served' | 'log' | 'now' | 'readLastRun'>>

/** Returns the state of the company's data; null without a snapshot, whose page says so, or if it cannot be read. */
async function readDataState(
  company: string,
  { served, log, now, readLastRun }: DataOptions,
): Promise<DataState | null> {
  try {
    const snapshot = served.getSnapshot(company)
    const about = { behind: served.behind(company), now: now() }
    return describeData(await readLastRun(company), snapshot, about)
  } catch (error) {
    if (!(error instanceof Refusal))
      log.error({ company }, `The state of the last run cannot be read: ${getMessage(error)}.`)
    return null
  }
}

/**
 * Notes which snapshot the reader sees, in a cookie of this key.
 * @returns when the one was published that was shown at the end of the visit before; null at the first visit.
 */
function noteVisit(context: PageContext, snapshot: ServedSnapshot, now: Date): Date | null {
  const { prefix } = context.var.holder
  const name = `${VISITS_COOKIE}_${prefix}`
  // Of the visit before, of this one, and when its last page was opened.
  const [before, shown, last] = (getCookie(context, name) ?? '').split('.').map(text => timeIn(text, now))
  const isAnother = !last || now.getTime() - last > VISIT_MS
  const previous = (isAnother ? shown : before) ?? null
  const value = [previous ?? '', Date.parse(snapshot.asOf), now.getTime()].join('.')
  const { isSecure = false } = context.env.outgoing?.exchange ?? {}
  const options = { path: PAGES_PATH, httpOnly: true, sameSite: 'Lax', maxAge: VISITS_SECONDS } as const
  setCookie(context, name, value, { ...options, secure: isSecure })
  return previous === null ? null : new Date(previous)
}

/** Reads a time of our cookie, which others can set as well. */
function timeIn(text: string, now: Date): number | null {
  const ms = /^\d{1,15}$/.test(text) ? Number(text) : 0
  return ms > 0 && ms <= now.getTime() ? ms : null
}

/** Reads what happened to a notice, the newest first; null while the changes are being prepared. */
async function readHistory(
  feed: Feed,
  snapshot: ServedSnapshot,
  id: string,
): Promise<readonly Past[] | null> {
  try {
    await feed.ready(() => snapshot, HISTORY_WITHIN_MS)
    return feed.readHistory(id, snapshot, MAX_HISTORY).map(text => JSON.parse(text) as Past)
  } catch (error) {
    if (error instanceof Refusal || error instanceof CursorGone) return null
    throw error
  }
}

function parsed({ bytes }: Json): Record<string, unknown> {
  return JSON.parse(Buffer.from(bytes).toString())
}

/**
 * Returns the form for a key.
 * @param problem why an earlier key was refused.
 * @param wanted the page that was asked for; null if it is the first one.
 */
function signInPage(problem: string | null, wanted: string | null = null): string {
  return document({
    title: 'Entrar · Editais',
    company: null,
    body: html`<section class="card narrow">
<h1>Entrar</h1>
<p>Use uma chave da API deste servidor; a chave do serviço original não funciona aqui. Quem administra cria uma com <code>editais keys create --description NOME</code>.</p>
${problem !== null && html`<p class="problem" role="alert" id="problema">${problem}</p>`}
<form method="post" action="/editais/entrar" class="stack">
<label for="chave">Chave da API</label>
<input id="chave" name="chave" type="password" required autocomplete="current-password" spellcheck="false" autofocus${
      problem !== null && html` aria-invalid="true" aria-describedby="problema"`
    }>
${wanted !== null && html`<input type="hidden" name="para" value="${wanted}">`}
<label class="check"><input type="checkbox" name="manter" value="sim"> Manter a sessão neste computador por 30 dias</label>
<button type="submit">Entrar</button>
</form>
</section>`,
  })
}

/** Returns the page of a link that signs one person in. */
function linkPage(code: string): string {
  return document({
    title: 'Entrar · Editais',
    company: null,
    body: html`<section class="card narrow">
<h1>Entrar</h1>
<p>Este link abre os editais neste navegador, uma única vez.</p>
<form method="post" action="/editais/entrar" class="stack">
<input type="hidden" name="codigo" value="${code}">
<label class="check"><input type="checkbox" name="manter" value="sim" checked> Manter a sessão neste computador por 180 dias</label>
<button type="submit">Entrar neste navegador</button>
</form>
</section>`,
  })
}
