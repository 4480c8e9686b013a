import { realpath } from 'node:fs/promises'
import type { Context, Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import type { Logger } from 'pino'
import { z } from 'zod'
import { joinNames } from '#config/companies.ts'
import type { Company, CompanyRegistry } from '#jobs/queues/company_registry.ts'
import type { Queues } from '#jobs/queues/queue.ts'
import { askRedis } from '#jobs/queues/redis.ts'
import { reach } from '#jobs/queues/redis_problem.ts'
import { describeFailure, readFailure } from '#src/core/company/run_report.ts'
import { latestLink } from '#src/core/lake/manifest.ts'
import { createSlots } from '#src/lib/concurrency.ts'
import { formatMoment, formatPlural, number } from '#src/present/text/format.ts'
import { html } from '#src/present/text/html.ts'
import { chip, describeData, document, type LastRun, PAGE_POLICY } from '#src/server/pages/layout.ts'
import { mayReach, type OperatorEnv } from './access.ts'

/** Long enough for a busy Redis. */
const REDIS_WITHIN_MS = 5000
/** Statuses, or reports, that are made at once: each is a process that loads DuckDB. */
const AT_ONCE = 2

/** The requests that an operator may make for a company. */
export type CompanyRequests = {
  requestSync(company: string, options: { readonly full: boolean }): Promise<{ readonly job: string }>
  /** Returns the output of `status --json`. */
  status(company: string): Promise<string>
}

type Options = CompanyRequests & {
  readonly registry: Pick<CompanyRegistry, 'companies' | 'broken'>
  readonly queues: Pick<Queues, 'redis' | 'prefix'>
  readonly log: Logger
}

/** Adds the routes below `/companies`; access is checked before them. */
export function routeCompanies(app: Hono, { registry, queues, requestSync, log, ...options }: Options): void {
  const status = sharing(options.status)
  app.post('/companies/:company/sync', async c => {
    const { slug } = findCompany(c, registry)
    const full = await readFull(c)
    const { redis, prefix } = queues
    // First: if Redis goes away after a command is sent, the command may or may not run.
    await askRedis(redis, REDIS_WITHIN_MS, () => reach(redis, prefix))
    const { job } = await askRedis(redis, REDIS_WITHIN_MS, () => requestSync(slug, { full }))
    log.info({ company: slug, job, full }, 'A run was requested over HTTP.')
    return c.json({ company: slug, full, job }, 202)
  })
  app.get('/companies/:company/status', async c => {
    const { slug, paths } = findCompany(c, registry)
    const published = await realpath(latestLink(paths.lake)).catch(() => null)
    if (published === null) {
      const failure = await readFailure(paths)
      const last = failure
        ? `The last run ${describeFailure(failure)}`
        : '/queues shows how the last run ended.'
      throw new HTTPException(409, {
        message: `${slug} has no snapshot yet. POST /companies/${slug}/sync requests a run. ${last}`,
      })
    }
    return c.body(await status(slug), 200, { 'Content-Type': 'application/json' })
  })
}

/** Returns the company that a request names. @throws HTTPException: 404 if it is not configured, 409 if its entry is broken. */
function findCompany(
  c: Context,
  { companies, broken }: Pick<CompanyRegistry, 'companies' | 'broken'>,
): Company {
  const slug = c.req.param('company') ?? ''
  const company = companies.get(slug)
  if (company) return company
  const problem = broken.get(slug)
  if (problem !== undefined) throw new HTTPException(409, { message: problem })
  const known =
    companies.size > 0 ? `Known: ${joinNames([...companies.keys()])}.` : 'No company is configured.'
  throw new HTTPException(404, { message: `${slug} is not configured. ${known}` })
}

const syncBody = z.strictObject({ full: z.boolean().default(false) })

/** Reads from a request's body whether the run is full. Without a body, it is incremental. */
async function readFull(c: Context): Promise<boolean> {
  if ((await c.req.text()).trim() === '') return false
  const [type] = (c.req.header('content-type') ?? '').split(';')
  if (type?.trim().toLowerCase() !== 'application/json') {
    throw new HTTPException(415, { message: 'A body needs Content-Type: application/json.' })
  }
  const body = syncBody.safeParse(await c.req.json().catch(() => undefined))
  if (body.success) return body.data.full
  throw new HTTPException(400, { message: 'The body must be {"full": true} or {"full": false}, or none.' })
}

/** Wraps `ask` so that concurrent calls about the same thing share one answer; a few calls run, and others wait. */
function sharing(ask: (about: string) => Promise<string>): typeof ask {
  const answers = new Map<string, Promise<string>>()
  const inSlot = createSlots(AT_ONCE)
  return about => {
    const present = answers.get(about) ?? inSlot(() => ask(about)).finally(() => answers.delete(about))
    answers.set(about, present)
    return present
  }
}

/** Each one can take two megabytes. */
const MAX_KEPT = 8
/** A report counts days until sessions and deadlines, so it goes out of date even without a new snapshot. */
const FRESH_MS = 10 * 60_000

export type ReportRequests = {
  /** Renders a company's report from its latest snapshot, as HTML. */
  report(company: string): Promise<string>
}

type ReportOptions = ReportRequests & {
  readonly registry: Pick<CompanyRegistry, 'companies' | 'broken'>
  /** How the last run of a company ended, on whichever host. */
  readonly readLastRun: (slug: string) => Promise<LastRun>
}

/**
 * Serves the health of the companies at `/companies`; the company's report at `/report` (for several companies, their health, with
 * links), and each at `/companies/<company>/report`. Access is checked before them.
 */
export function routeReports(app: Hono<OperatorEnv>, { registry, report, readLastRun }: ReportOptions): void {
  const show = remembering(sharing(report))
  const theirs = (c: Context<OperatorEnv>) =>
    [...registry.companies.values()].filter(({ slug }) => mayReach(c.var.operator, slug))
  const health = async (c: Context<OperatorEnv>) => {
    const broken = [...registry.broken].filter(([slug]) => mayReach(c.var.operator, slug))
    const known = theirs(c).map(async company => ({ company, last: await readLastRun(company.slug) }))
    c.header('Cache-Control', 'no-store')
    c.header('Content-Security-Policy', PAGE_POLICY)
    return c.html(healthPage(await Promise.all(known), broken, new Date()))
  }
  app.get('/companies', health)
  app.get('/report', async c => {
    const [first, ...others] = theirs(c)
    return first && others.length === 0 ? await answer(c, first, show) : await health(c)
  })
  app.get('/companies/:company/report', async c => await answer(c, findCompany(c, registry), show))
}

type Show = (company: Company, snapshot: string) => Promise<string>

async function answer(c: Context, company: Company, show: Show): Promise<Response> {
  const snapshot = await realpath(latestLink(company.paths.lake)).catch(() => null)
  if (snapshot === null) {
    throw new HTTPException(409, {
      message: `${company.slug} has no snapshot yet. /queues shows how its last run ended.`,
    })
  }
  c.header('Cache-Control', 'no-store')
  return c.html(await show(company, snapshot))
}

/** Keeps one report per company, while its snapshot is the latest and for FRESH_MS at most. */
function remembering(report: ReportRequests['report']): Show {
  const kept = new Map<string, { readonly snapshot: string; readonly atMs: number; readonly text: string }>()
  return async ({ slug }, snapshot) => {
    const known = kept.get(slug)
    if (known?.snapshot === snapshot && performance.now() - known.atMs < FRESH_MS) return known.text
    const text = await report(slug)
    // The one that was rendered longest ago goes first.
    kept.delete(slug)
    if (kept.size >= MAX_KEPT) kept.delete(kept.keys().next().value as string)
    kept.set(slug, { snapshot, atMs: performance.now(), text })
    return text
  }
}

type Known = { readonly company: Company; readonly last: LastRun }

/** Shows how old the data of each company are, and what is wrong; those with a problem first. */
function healthPage(
  known: readonly Known[],
  broken: readonly (readonly [string, string])[],
  now: Date,
): string {
  const rows = known.map(({ company: { slug, schedule }, last }) => {
    const about = { asOf: now.toISOString(), timeZone: schedule.timezone }
    const { read, problem } = describeData(last, about, { behind: null, now })
    return {
      slug,
      timeZone: schedule.timezone,
      read,
      problem: last.state === null ? 'Ainda não foi lida.' : problem,
      last,
    }
  })
  const sorted = rows.toSorted((a, b) => Number(a.problem === null) - Number(b.problem === null))
  const cards = sorted.map(({ slug, timeZone, read, problem, last: { state, failure } }) => {
    const put = state === null ? 0 : state.quarantined
    return html`<li class="card"><h2>${slug}</h2>
<p class="line">${chip(problem === null ? 'em dia' : 'atenção', problem === null ? 'green' : 'red')}<span>${read}</span>${put > 0 && html`<span>${formatPlural(put, 'registro em quarentena', 'registros em quarentena')}</span>`}</p>
${problem !== null && html`<p class="text">${problem}</p>`}${failure && html`<p class="text">Falhou em ${formatMoment(failure.at, timeZone)}${failure.times > 1 && `, ${number(failure.times)} vezes desde ${formatMoment(failure.since, timeZone)}`}: <span lang="en">${failure.reason}</span></p>`}
<p class="line"><a href="/companies/${slug}/report">Relatório</a><a href="/companies/${slug}/status">Estado (JSON)</a></p></li>`
  })
  const wrong = broken.map(
    ([slug, problem]) =>
      html`<li class="card"><h2>${slug}</h2><p class="line">${chip('não configurada', 'red')}</p><p class="text" lang="en">${problem}</p></li>`,
  )
  const body = html`<h1>Empresas</h1>
${known.length + wrong.length === 0 && html`<p>Nenhuma empresa configurada.</p>`}<ul class="notices">${wrong}${cards}</ul>
<p class="more"><a href="/queues">Filas e execuções</a></p>`
  return document({ title: 'Empresas · Editais', company: null, body })
}
