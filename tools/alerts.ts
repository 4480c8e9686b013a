import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { ALERTS } from '#jobs/alerts/table.ts'

const ROOT = join(import.meta.dirname, '..')
const RUNBOOKS = 'docs/operating/runbooks'

/** The files that follow from the table of alerts, by their paths from the root. */
export const FILES = {
  'deploy/helm/editais-sync/monitoring/alerts.yaml': renderRules,
  [`${RUNBOOKS}/README.md`]: renderIndex,
} as const satisfies Readonly<Record<string, (before: string) => string>>

const ABOUT_RULES = `# Alerts on the metrics of the workers: \`rule_files\` of Prometheus can name this file. Each has a page below
# docs/operating/runbooks. A worker knows only its own disk, so figures of a company are those of the worker that knows best.
# Written by \`npm run alerts\`.
`
/** Longer than a scrape. */
const SETTLED = '1m'

function renderRules(): string {
  const rules = ALERTS.map(({ rule, name, severity, summary, when }) => {
    const own = `editais_alerts{alert="${name}"}`
    const { expr, for: settled } =
      typeof when === 'object'
        ? when
        : { expr: `max${when === 'of all' ? '' : ' by (company) '}(${own}) > 0`, for: SETTLED }
    const annotations = { summary, runbook_url: `${RUNBOOKS}/${pageOf(rule)}` }
    return { alert: rule, expr, for: settled, labels: { severity }, annotations }
  })
  return ABOUT_RULES + stringify({ groups: [{ name: 'editais-sync', rules }] }, { lineWidth: 0 })
}

/** Replaces the table of the page. */
function renderIndex(before: string): string {
  const rows = ALERTS.map(
    ({ rule, severity, means }) => `| [${rule}](${pageOf(rule)}) | ${severity} | ${means} |`,
  )
  return before.replace(/(?<=^\|---\|---\|---\|\n)(?:\|.*\n)*/m, `${rows.join('\n')}\n`)
}

/** Returns the name of a runbook: `run-hangs.md` for `EditaisRunHangs`. */
function pageOf(rule: string): string {
  const words = rule.match(/[A-Z][a-z]*/g) ?? []
  return `${words.slice(1).join('-').toLowerCase()}.md`
}

if (import.meta.main)
  for (const [path, render] of Object.entries(FILES)) {
    const file = join(ROOT, path)
    writeFileSync(file, render(readFileSync(file, 'utf8')))
  }
