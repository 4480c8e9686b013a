import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual, promisify } from 'node:util'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { pluralize } from '#src/lib/count.ts'
import type { Servers } from '#test/api/servers.ts'
import { CACHE, replaceCached } from '#test/support/cached.ts'
import { obtainGoProgram } from '#test/support/go_programs.ts'
import { obtainPython } from '#test/support/python_environment.ts'
import type { Result } from '../result.ts'
import { BASE, MISTAKES, REFUSED, VALUES } from './values.ts'

/** The chart against the schemas of Kubernetes, and the alerts with Prometheus' own tool; no cluster is there. */

const CHART = join(import.meta.dirname, '../../../deploy/helm/editais-sync')
const HELM = { path: 'helm.sh/helm/v3/cmd/helm', version: 'v3.22.0' }
const KUBECONFORM = { path: 'github.com/yannh/kubeconform/cmd/kubeconform', version: 'v0.8.0' }
const PROMTOOL = { path: 'github.com/prometheus/prometheus/cmd/promtool', version: 'v0.316.0' }
/** The clients of all clouds, which take most of the time to build. */
const WITHOUT_DISCOVERY = ['remove_all_sd']
/** The oldest that the chart accepts, and the newest. */
const VERSIONS = ['1.27.0', '1.37.0']
const PLACES = ['/{{ .ResourceKind }}{{ .KindSuffix }}.json', '/../custom/{{ .ResourceKind }}.json']

export async function* testKubernetes(_servers: Servers, directory: string): AsyncGenerator<Result> {
  const helm = await obtainGoProgram(HELM.path, HELM.version)
  const kubeconform = await obtainGoProgram(KUBECONFORM.path, KUBECONFORM.version)
  const promtool = await obtainGoProgram(PROMTOOL.path, PROMTOOL.version, WITHOUT_DISCOVERY)
  const schemas = await obtainSchemas()
  const render = async (values: object, version = VERSIONS.at(-1)) => {
    const file = join(directory, 'values.json')
    await writeFile(file, JSON.stringify(values))
    const lint = await run(helm, [
      'lint',
      '--strict',
      '--kube-version',
      `v${version}`,
      CHART,
      '--values',
      file,
    ])
    const args = ['template', 'test', CHART, '--namespace', 'x', '--kube-version', `v${version}`]
    const rendered = await run(helm, [...args, '--values', file])
    return { ...rendered, ok: rendered.ok && lint.ok, said: `${lint.output}${rendered.output}` }
  }
  const validate = async (manifests: string, version: string) => {
    const file = join(directory, 'manifests.yaml')
    await writeFile(file, manifests)
    const places = PLACES.flatMap(place => ['-schema-location', join(schemas, version, place)])
    return await run(kubeconform, ['-strict', '-kubernetes-version', version, ...places, file])
  }
  for (const [name, values] of Object.entries(VALUES))
    for (const version of VERSIONS) {
      const { ok, output, said } = await render(values, version)
      const judged = ok ? await validate(output, version) : { ok, output: said }
      const count = pluralize(ok ? parseAllDocuments(output).length : 0, 'manifest')
      yield result(`the chart with ${name}, Kubernetes ${version}: ${count}`, judged)
    }
  const wrong: string[] = []
  for (const [what, change, message] of REFUSED) {
    const { ok, said } = await render(merged(BASE, change))
    if (ok || !message.test(said)) wrong.push(`  ${what}: ${ok ? 'accepted' : said}\n`)
  }
  yield { title: `the chart refuses ${pluralize(REFUSED.length, 'wrong value')}`, wrong }
  const { output: manifests } = await render(VALUES['every value'] as object)
  const missed: string[] = []
  for (const [right, mistake] of MISTAKES) {
    const changed = manifests.replace(right, mistake)
    if (changed === manifests || (await validate(changed, '1.37.0')).ok) missed.push(`  ${mistake}\n`)
  }
  yield { title: `kubeconform finds ${pluralize(MISTAKES.length, 'planted mistake')}`, wrong: missed }
  yield* testMonitoring(promtool, directory, manifests)
}

async function* testMonitoring(
  promtool: string,
  directory: string,
  manifests: string,
): AsyncGenerator<Result> {
  const monitoring = join(directory, 'monitoring')
  await mkdir(monitoring)
  const rules = join(monitoring, 'alerts.yaml')
  await copyFile(join(CHART, 'monitoring/alerts.yaml'), rules)
  await copyFile(join(import.meta.dirname, 'alerts.test.yaml'), join(monitoring, 'alerts.test.yaml'))
  const check = ['check', 'rules', '--lint=all', '--lint-fatal']
  yield result('promtool accepts the alerts', await run(promtool, [...check, rules]))
  yield result(
    'promtool: each alert is raised, and not without a reason',
    await run(promtool, ['test', 'rules', join(monitoring, 'alerts.test.yaml')]),
  )
  const text = await readFile(rules, 'utf8')
  const expected = parse(text.replaceAll('docs/operating/runbooks', 'https://git.example.com/runbooks'))
  const rule = parseAllDocuments(manifests)
    .map(one => one.toJS())
    .find(({ kind }) => kind === 'PrometheusRule')
  const isSame = isDeepStrictEqual(rule?.spec, expected)
  yield { title: 'the chart has the same alerts', wrong: isSame ? [] : ['  they differ\n'] }
  const queries = await queriesOfDashboard()
  const recorded = join(monitoring, 'queries.yaml')
  const named = queries.map((expr, index) => ({ record: `query_${index}`, expr }))
  await writeFile(recorded, stringify({ groups: [{ name: 'dashboard', rules: named }] }))
  yield result(
    `promtool accepts ${pluralize(queries.length, 'query', 'queries')} of the dashboard`,
    await run(promtool, ['check', 'rules', recorded]),
  )
}

/** With values for Grafana's variables. */
async function queriesOfDashboard(): Promise<string[]> {
  const { panels } = JSON.parse(await readFile(join(CHART, 'monitoring/dashboard.json'), 'utf8')) as {
    panels: { targets: { expr: string }[] }[]
  }
  return panels
    .flatMap(({ targets }) => targets.map(({ expr }) => expr))
    .map(expr => expr.replaceAll('$__rate_interval', '5m').replaceAll('$company', 'acme'))
}

/** A directory for each version of Kubernetes, and `custom` for the resources of KEDA and the Prometheus operator. */
async function obtainSchemas(): Promise<string> {
  const python = await obtainPython({
    name: 'kubernetes schemas',
    requirements: join(import.meta.dirname, 'requirements.txt'),
    module: 'kubernetes_validate, cloudcoil',
    least: '3.11',
    below: '3.14',
    user: 'The test of the Helm chart',
  })
  const script = join(import.meta.dirname, 'schemas.py')
  const inputs = [script, join(import.meta.dirname, 'requirements.txt')]
  const texts = await Promise.all(inputs.map(path => readFile(path, 'utf8')))
  const digest = createHash('sha256').update(`${texts.join()}${VERSIONS}`).digest('hex').slice(0, 12)
  const directory = join(CACHE, `kubernetes-schemas-made-${digest}`)
  if (existsSync(directory)) return directory
  await replaceCached(directory, async unfinished => {
    await promisify(execFile)(python, [script, unfinished, ...VERSIONS])
  })
  return directory
}

function merged(base: object, change: object): object {
  const both: Record<string, unknown> = { ...base }
  for (const [name, value] of Object.entries(change)) {
    const before = both[name]
    const isNested = [before, value].every(one => typeof one === 'object' && one !== null)
    if (value === null) delete both[name]
    else both[name] = isNested ? merged(before as object, value as object) : value
  }
  return both
}

type Ran = { readonly ok: boolean; readonly output: string }

async function run(program: string, args: readonly string[]): Promise<Ran> {
  try {
    const { stdout } = await promisify(execFile)(program, args, { maxBuffer: 16 << 20 })
    return { ok: true, output: stdout }
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    return { ok: false, output: `${stdout}${stderr}` }
  }
}

function result(title: string, { ok, output }: Ran): Result {
  return { title, wrong: ok ? [] : output.split('\n').map(line => `  ${line}\n`) }
}
