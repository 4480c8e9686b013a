import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { companyPaths } from '#src/core/company/company.ts'
import { type Failure, readFailure } from '#src/core/company/run_report.ts'
import { type KnownState, readState } from '#src/core/company/state.ts'
import { isStale } from '#src/present/readings.ts'
import { formatAge, formatMoment } from '#src/present/text/format.ts'
import { type Html, html, trustMarkup } from '#src/present/text/html.ts'
import { type Behind, describeAge } from '#src/server/company.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'

/** The state of a company's data, which is on top of every page. */
export type DataState = {
  /** When the whole list was read last; null if this host does not know. */
  readonly read: string | null
  /** Why the data may not be those of the service; null if they are. */
  readonly problem: string | null
  /** When the snapshot was published. */
  readonly published: string
}

/** How the last run of a company ended, and the later ones without a report. */
export type LastRun = { readonly state: KnownState | null; readonly failure: Failure | null }

/** Returns what this disk knows of the last run. @param lake the company's directory of snapshots. */
export async function readLastRunHere(lake: string): Promise<LastRun> {
  const root = dirname(lake)
  const paths = companyPaths(dirname(root), basename(root))
  return { state: await readState(paths), failure: await readFailure(paths) }
}

/** Describes a company's data at this moment: after the last run and look, not only what was published. */
export function describeData(
  { state, failure }: LastRun,
  snapshot: Pick<ServedSnapshot, 'asOf' | 'timeZone'>,
  { behind, now }: { behind: Behind | null; now: Date },
): DataState {
  const published = describeAge(snapshot, behind)
  if (state === null) return { read: null, problem: null, published }
  const at = state.last_good_at
  if (at === null)
    return {
      read: null,
      problem: 'Ainda não houve uma leitura completa: podem faltar editais e análises.',
      published,
    }
  const ageMs = now.getTime() - Date.parse(at)
  const read = `Última leitura completa há ${formatAge(ageMs)}`
  const since = `os dados são de ${formatMoment(at, snapshot.timeZone)}`
  if (failure !== null || state.last_run.status === 'failed')
    return { read, problem: `A última execução falhou: ${since}.`, published }
  const isOld = isStale(new Date(at), now)
  return { read, problem: isOld ? `Não há leitura completa há mais de 24 horas: ${since}.` : null, published }
}

const STYLE = [join('..', '..', 'present', 'text', 'theme.css'), 'pages.css']
  .map(file => readFileSync(join(import.meta.dirname, file), 'utf8'))
  .join('\n')

/** No scripts and no requests to others, whatever a notice contains; only our own style, known by its hash. */
export const PAGE_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(`\n${STYLE}`).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

type Page = {
  readonly title: string
  /** Null before anybody signed in. */
  readonly company: string | null
  /** Null without a snapshot. */
  readonly dataState?: DataState | null
  readonly body: Html
}

/** Returns a whole document. */
export function document({ title, company, dataState = null, body }: Page): string {
  return html`<!doctype html>
<html lang="pt-BR">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>
${trustMarkup(STYLE)}</style>
</head>
<body>
<a class="skip" href="#conteudo">Ir para o conteúdo</a>
<header class="top">
<p class="brand"><a href="/editais/hoje">Editais</a>${company !== null && html` <span>${company}</span>`}</p>
${
  company !== null &&
  html`<nav class="line" aria-label="Páginas principais"><a href="/editais/hoje">Hoje</a><a href="/editais">Buscar</a></nav>
<form method="post" action="/editais/sair"><button class="quiet" type="submit">Sair</button></form>`
}
</header>
<main id="conteudo">
${dataState?.problem && html`<p class="problem state" role="status">${dataState.problem}</p>`}
${dataState?.read && html`<p class="muted state">${dataState.read}</p>`}
${body}
</main>
${dataState && html`<footer><p>Dados publicados em ${dataState.published}. <a href="/docs">Documentação da API</a></p></footer>`}
</body>
</html>
`.html
}

/** Returns a list of names and values; those that are null are left out. */
export function factList(all: readonly (readonly [string, Html | string | null])[]): Html {
  const known = all.filter(([, value]) => value !== null)
  return html`<dl class="facts card">${known.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
}

/** The colour of a chip. */
type Tone = 'red' | 'yellow' | 'green' | 'accent' | 'plain'

const TONES: Readonly<Record<string, Tone>> = {
  participar: 'green',
  cautela: 'yellow',
  nao_recomendado: 'red',
  green: 'green',
  yellow: 'yellow',
  red: 'red',
  critical: 'red',
  high: 'red',
  medium: 'yellow',
  ready: 'green',
  discarded: 'plain',
  expired: 'plain',
}

/** Returns the colour of a code. */
export function chooseTone(code: unknown): Tone {
  return typeof code === 'string' && Object.hasOwn(TONES, code) ? (TONES[code] as Tone) : 'accent'
}

export function chip(name: string | null, tone: Tone): Html | null {
  return name === null ? null : html`<span class="chip ${tone}">${name}</span>`
}

type Message = {
  readonly title: string
  readonly sentence: string
  /** In English, as programs get it. */
  readonly detail?: string
  /** The address of the link to continue, below our own pages. */
  readonly back?: string
}

/** Makes a page with one sentence, and a link to continue. */
export function messagePage(
  company: string | null,
  { title, sentence, detail = '', back = '/editais' }: Message,
  dataState: DataState | null = null,
): string {
  return document({
    title: company === null ? title : `${title} · ${company}`,
    company,
    dataState,
    body: html`<section class="card narrow"><h1>${title}</h1><p>${sentence}</p>${detail !== '' && html`<p class="muted text" lang="en">${detail}</p>`}<p class="more"><a href="${back}">Ir para os editais</a></p></section>`,
  })
}
