import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { QueueKeys } from 'bullmq'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { DAEMON_SETTINGS } from '#config/daemon.ts'
import { MERGED_SETTINGS } from '#config/setting_kinds.ts'
import { COMPANY_SETTINGS, KEY_SETTINGS } from '#config/settings.ts'
import { ALERTS } from '#jobs/alerts/table.ts'
import { createMetrics, type MetricsOptions } from '#jobs/http/metrics.ts'
import { FILES } from '#tools/alerts.ts'

const ROOT = join(import.meta.dirname, '../../..')
const CHART = join(ROOT, 'deploy/helm/editais-sync')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const inChart = (path: string) => readFileSync(join(CHART, path), 'utf8')

type Rule = {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly runbook_url: string }
}
type Panel = {
  readonly id: number
  readonly title: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets: readonly { readonly refId: string; readonly expr: string }[]
}

const rules = (parse(inChart('monitoring/alerts.yaml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  group => group.rules,
)
const dashboard = JSON.parse(inChart('monitoring/dashboard.json')) as {
  schemaVersion: number
  uid: string
  panels: Panel[]
  templating: { list: { name: string; query: unknown }[] }
}
const exposed = await metricsOfWorker()

/** The names that a worker exposes, with those that a histogram adds. */
async function metricsOfWorker(): Promise<ReadonlySet<string>> {
  const queue = { name: 'runs', getJobCounts: async () => ({}) }
  const options = {
    registry: { companies: new Map() },
    queues: { ticks: queue, runs: queue, redis: { status: 'end' }, problem: () => null },
    now: () => new Date(),
  }
  const { body } = await createMetrics(options as unknown as MetricsOptions).render()
  const found = [...body.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
  return new Set(
    found.flatMap(([, name = '', type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    ),
  )
}

/** Names of metrics in a query: what begins as ours or the runtime's do. */
function metricsIn(query: string): string[] {
  return query.match(/\b(?:editais|process|nodejs)_\w+/g) ?? []
}

describe('Alerts', () => {
  it('ask for metrics that a worker exposes', () => {
    expect(exposed.size).toBeGreaterThan(40)
    expect(rules.filter(({ expr }) => metricsIn(expr).length === 0)).toEqual([])
    expect(rules.flatMap(({ expr }) => metricsIn(expr)).filter(name => !exposed.has(name))).toEqual([])
  })

  it('and the index of their runbooks follow from the table of alerts: npm run alerts', () => {
    expect(Object.entries(FILES).filter(([path, render]) => render(read(path)) !== read(path))).toEqual([])
    const names = ALERTS.flatMap(({ name }) => name ?? [])
    expect(new Set(names).size).toBe(names.length)
  })

  it('have a runbook page of their own with their name', () => {
    const pages = rules.map(({ annotations }) => annotations.runbook_url)
    expect(new Set(pages).size).toBe(rules.length)
    const titles = pages.map(page => (existsSync(join(ROOT, page)) ? read(page).split('\n')[0] : page))
    expect(titles).toEqual(rules.map(({ alert }) => `# ${alert}`))
  })

  it('are tested', () => {
    const tests = read('test/engines/kubernetes/alerts.test.yaml')
    expect(rules.filter(({ alert }) => !tests.includes(`alertname="${alert}"`))).toEqual([])
  })
})

describe('The dashboard', () => {
  it('asks for metrics that a worker exposes', () => {
    const queries = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    expect(queries.filter(expr => metricsIn(expr).length === 0)).toEqual([])
    const others = [...queries, JSON.stringify(dashboard.templating)].flatMap(metricsIn)
    expect(others.filter(name => !exposed.has(name))).toEqual([])
  })

  it('has the form of its schema version: ids, places and references are unique', () => {
    expect(dashboard).toMatchObject({ schemaVersion: 39, uid: 'editais-sync' })
    const { panels } = dashboard
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length)
    for (const { gridPos, targets } of panels) {
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24)
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length)
    }
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
  })
})

describe('The chart', () => {
  it('names the lists that the queue of runs has', () => {
    const keys = new QueueKeys('p').getKeys('runs')
    const scaled = inChart('templates/scaledobject.yaml')
    const [, first, second] = /dict "waiting" "(\w+)" "active" "(\w+)"/.exec(scaled) ?? []
    expect([keys.wait, keys.active]).toEqual([`p:runs:${first}`, `p:runs:${second}`])
    expect(scaled).toContain('printf "%s:runs:%s" $redis.keys $list')
  })

  it('has the version of the program', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string }
    expect(parse(inChart('Chart.yaml'))).toMatchObject({ appVersion: version })
  })

  it('refuses every setting that holds a secret, because variables are shown', () => {
    const validate = new Ajv({ strict: false }).compile(JSON.parse(inChart('values.schema.json')))
    const values = parse(inChart('values.yaml')) as Record<string, object>
    const withSetting = (name: string) => ({
      ...values,
      image: { repository: 'x' },
      logUrl: 's3://bucket',
      redis: { url: 'redis://redis', prefix: 'x' },
      settings: { [name]: 'text' },
    })
    expect(validate(withSetting('API_TIMEOUT_MS'))).toBe(true)
    const known = [...DAEMON_SETTINGS, ...COMPANY_SETTINGS, ...KEY_SETTINGS]
    const secret = known.filter(name => known.includes(`${name}_FILE`))
    expect(secret).toEqual(expect.arrayContaining(['API_KEY', 'ADMIN_TOKEN', 'REDIS_PASSWORD']))
    const refused = [
      ...secret,
      'SMTP_PASSWORD',
      'HEARTBEAT_URL',
      'LOG_URL',
      'S3_CREDENTIALS_FILE',
      ...MERGED_SETTINGS.keys(),
    ]
    expect(refused.filter(name => validate(withSetting(name)))).toEqual([])
    const withFile = (name: string) => ({
      ...withSetting('API_TIMEOUT_MS'),
      secret: { name: 'x', files: { [name]: 'key' } },
    })
    expect(validate(withFile('ICEBERG_CREDENTIAL_FILE'))).toBe(true)
    const merged = [...MERGED_SETTINGS.keys()].filter(name => name.endsWith('_FILE'))
    expect(merged.length).toBeGreaterThan(3)
    expect(merged.filter(name => validate(withFile(name)))).toEqual([])
  })
})
