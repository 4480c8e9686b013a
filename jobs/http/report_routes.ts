import { realpath } from 'node:fs/promises'
import type { Context, Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import type { Company, CompanyRegistry } from '#jobs/queues/company_registry.ts'
import { latestLink } from '#src/core/lake/manifest.ts'
import { html } from '#src/present/text/html.ts'
import { mayReach, type OperatorEnv } from './access.ts'
import { findCompany, sharing } from './company_routes.ts'

/** Each one is a process that loads DuckDB. */
const MAX_REPORTS = 2
/** Each one can take two megabytes. */
const MAX_KEPT = 8
/** A report counts days until sessions and deadlines, so it goes out of date even without a new snapshot. */
const FRESH_MS = 10 * 60_000

export type ReportRequests = {
  /** Renders a company's report from its latest snapshot, as HTML. */
  report(company: string): Promise<string>
}

type Options = ReportRequests & {
  readonly registry: Pick<CompanyRegistry, 'companies' | 'broken'>
}

/**
 * Serves the company's report at `/report` (for several companies, a list of them), and each at `/companies/<company>/report`.
 * Access is checked before them.
 */
export function routeReports(app: Hono<OperatorEnv>, { registry, report }: Options): void {
  const show = remembering(sharing(MAX_REPORTS, report))
  app.get('/report', async c => {
    const companies = [...registry.companies.values()].filter(({ slug }) => mayReach(c.var.operator, slug))
    const [first] = companies
    return first && companies.length === 1 ? await answer(c, first, show) : c.html(list(companies).html)
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

function list(companies: readonly Company[]) {
  const items = companies.map(({ slug }) => html`<li><a href="/companies/${slug}/report">${slug}</a></li>`)
  return html`<!doctype html>
    <html lang="pt-BR">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <meta name="color-scheme" content="light dark" />
        <title>Editais</title>
      </head>
      <body style="font: 1.1rem/1.6 system-ui, sans-serif; background: canvas; color: canvastext; margin: 2rem auto; max-width: 40rem; padding: 0 1rem">
        <main>
          <h1>Editais</h1>
          ${items.length > 0 ? html`<ul>${items}</ul>` : html`<p>Nenhuma empresa configurada.</p>`}
        </main>
      </body>
    </html>`
}
