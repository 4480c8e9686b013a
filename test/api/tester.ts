import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { obtainPython } from '#test/support/python_environment.ts'

const REQUIREMENTS = join(import.meta.dirname, 'requirements.txt')
/** A run takes about 15 s; one that takes longer than this hangs. */
const RUN_TIMEOUT_MS = 240_000

/** schemathesis in its own environment. */
export type Tester = { readonly python: string; readonly version: string }

export type TestedApi = {
  readonly url: string
  /** The path of its description. */
  readonly description: string
  /** Checks that do not apply to it. */
  readonly without: readonly string[]
  readonly withoutPaths: readonly string[]
  /** The header with the key. */
  readonly header: readonly [name: string, value: string]
  /** Existing ids to request, in addition to generated ones. */
  readonly ids: readonly string[]
}

export type Verdict = {
  readonly passed: boolean
  readonly cases: number
  readonly failures: number
  readonly seconds: number
  /** What schemathesis printed. */
  readonly output: string
}

/** The parts of its report that are used. */
type Report = {
  readonly complete: boolean
  readonly running_time: number
  readonly operations: { readonly selected: number; readonly tested: number }
  readonly phases: Readonly<Record<string, { readonly status: string }>>
  readonly test_cases: { readonly generated: number; readonly unique_failures: number }
  readonly errors: readonly unknown[]
}

/**
 * Returns the pinned schemathesis; installs it from PyPI if necessary.
 * @throws Error with a short message if it cannot be installed.
 */
export async function obtainTester(): Promise<Tester> {
  const version = /^schemathesis==(\S+)/m.exec(await readFile(REQUIREMENTS, 'utf8'))?.[1] ?? ''
  const python = await obtainPython({
    name: `schemathesis ${version}`,
    requirements: REQUIREMENTS,
    module: 'schemathesis',
    least: '3.11',
    user: 'The test of the API',
  })
  return { python, version }
}

/**
 * Tests all operations with all checks.
 * @param directory for the files of this run.
 */
export async function testApi(
  { python }: Tester,
  { url, description, without, withoutPaths, header: [name, value], ids }: TestedApi,
  { seed, cases, directory }: { seed: number; cases: number; directory: string },
): Promise<Verdict> {
  const text = JSON.stringify
  await writeFile(
    join(directory, 'schemathesis.toml'),
    [
      ...['[headers]', `${text(name)} = ${text(value)}`],
      ...['[dictionaries.ids]', `values = ${text(ids)}`],
      ...['[parameters]', '"path.id" = { dictionary = "ids", probability = 0.3 }'],
      // Otherwise most requests would also send a generated key and get 401.
      ...['[generation]', 'with-security-parameters = false', 'database = "none"'],
      ...['[cache]', 'enabled = false'],
      // It warns if an operation is never answered with 2xx, or always with 401: then nothing was tested.
      ...['[warnings]', 'fail-on = true'],
    ].join('\n'),
    { mode: 0o600 },
  )
  const reportFile = join(directory, 'report.json')
  const child = spawn(
    python,
    [
      ...['-m', 'schemathesis.cli', '--config-file', 'schemathesis.toml', 'run', url + description],
      ...['--checks', 'all', '--phases', 'examples,coverage,fuzzing,stateful', '--seed', String(seed)],
      ...(without.length > 0 ? ['--exclude-checks', without.join()] : []),
      ...withoutPaths.flatMap(path => ['--exclude-path', path]),
      ...['--max-examples', String(cases), '--no-color'],
      ...['--report', 'json', '--report-json-path', reportFile],
    ],
    { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'], timeout: RUN_TIMEOUT_MS, killSignal: 'SIGKILL' },
  )
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', piece => {
      output += piece
    })
  }
  const [code] = await once(child, 'close')
  const report = await readReport(reportFile)
  return {
    passed: code === 0 && report !== null && testedAll(report),
    cases: report?.test_cases.generated ?? 0,
    failures: report?.test_cases.unique_failures ?? 0,
    seconds: Math.round(report?.running_time ?? 0),
    output,
  }
}

async function readReport(path: string): Promise<Report | null> {
  const text = await readFile(path, 'utf8').catch(() => null)
  return text === null ? null : JSON.parse(text)
}

function testedAll({ complete, operations, phases, test_cases, errors }: Report): boolean {
  const states = Object.values(phases).map(({ status }) => status)
  return (
    complete &&
    operations.tested === operations.selected &&
    states.length === 4 &&
    // A phase is skipped if the description has nothing for it: no examples, or no links.
    states.every(status => status === 'success' || status === 'skip') &&
    states.includes('success') &&
    test_cases.unique_failures === 0 &&
    errors.length === 0
  )
}
