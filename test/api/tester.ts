import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { systemCode } from '#src/platform/errors.ts'
import { findOnPath, installPackages, type Packages, say } from '#test/support/system_packages.ts'

const REQUIREMENTS = join(import.meta.dirname, 'requirements.txt')
const CACHE = join(import.meta.dirname, '../../node_modules/.cache')
/** The oldest Python that this version of schemathesis supports. */
const LEAST_PYTHON = '3.11'
const PYTHONS = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11']
const PACKAGES: Packages = {
  'apt-get': ['python3', 'python3-venv'],
  dnf: ['python3'],
  apk: ['python3'],
  brew: ['python'],
}
/** Succeeds if this Python can create an environment. */
const PROBE = `import sys, venv, ensurepip; sys.exit(sys.version_info < (${LEAST_PYTHON.replace('.', ', ')}))`
const INSTALL_TIMEOUT_MS = 300_000
/** A run takes about 15 s; one that takes longer than this hangs. */
const RUN_TIMEOUT_MS = 240_000

/** schemathesis in its own environment. */
export type Tester = { readonly python: string; readonly version: string }

export type TestedApi = {
  readonly url: string
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
 * Returns the pinned schemathesis; installs it from PyPI below `node_modules/.cache` if necessary.
 * @throws Error with a short message if it cannot be installed.
 */
export async function obtainTester(): Promise<Tester> {
  const requirements = await readFile(REQUIREMENTS, 'utf8')
  const version = /^schemathesis==(\S+)/m.exec(requirements)?.[1] ?? ''
  const directory = join(CACHE, `schemathesis-${version}`)
  const tester = { python: join(directory, 'bin/python'), version }
  if (await isInstalled(tester, directory, requirements)) return tester
  const python = (await findPython()) ?? (await installPython())
  say(`Installing schemathesis ${version} from PyPI into node_modules/.cache.`)
  await mkdir(CACHE, { recursive: true })
  const unfinished = await mkdtemp(join(CACHE, 'unfinished-'))
  try {
    await run(python, ['-m', 'venv', unfinished])
    await run(join(unfinished, 'bin/python'), [
      ...['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input'],
      // Wheels only: nothing is built, so no setup code runs.
      ...['--require-hashes', '--only-binary', ':all:', '--requirement', REQUIREMENTS],
    ])
    await copyFile(REQUIREMENTS, join(unfinished, 'requirements.txt'))
    await rm(directory, { recursive: true, force: true })
    await rename(unfinished, directory)
  } catch (error) {
    throw new Error(
      `schemathesis ${version} could not be installed from PyPI: ${reasonOf(error)}. Check the network, or set PIP_INDEX_URL to a mirror.`,
    )
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  return tester
}

/** True if it matches these requirements and its Python still works. */
async function isInstalled({ python }: Tester, directory: string, requirements: string): Promise<boolean> {
  const installed = await readFile(join(directory, 'requirements.txt'), 'utf8').catch(() => null)
  return installed === requirements && (await succeeds(python, ['-c', 'import schemathesis']))
}

async function findPython(): Promise<string | null> {
  for (const name of PYTHONS) {
    const path = await findOnPath([name])
    if (path && (await succeeds(path, ['-c', PROBE]))) return path
  }
  return null
}

async function installPython(): Promise<string> {
  const problem = await installPackages(`Python ${LEAST_PYTHON} with venv`, PACKAGES)
  const python = problem === null ? await findPython() : null
  if (python) return python
  throw new Error(
    `The test of the API needs Python ${LEAST_PYTHON} or later with venv and pip, but ${problem ?? 'the installed Python is older'}. Install it (apt-get install python3 python3-venv) and run this again.`,
  )
}

async function succeeds(command: string, args: readonly string[]): Promise<boolean> {
  return await run(command, args).then(
    () => true,
    () => false,
  )
}

async function run(command: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(command, args, { timeout: INSTALL_TIMEOUT_MS, maxBuffer: 64 << 20 })
}

/** pip prints explanations after the error line. */
function reasonOf(error: unknown): string {
  const lines = String((error as { stderr?: unknown }).stderr ?? '')
    .trim()
    .split('\n')
  const line = lines.findLast(one => one.startsWith('ERROR:')) ?? lines.at(-1)
  return line?.replace(/\.$/, '') || systemCode(error) || 'timed out'
}

/**
 * Tests all operations with all checks.
 * @param directory for the files of this run.
 */
export async function testApi(
  { python }: Tester,
  { url, header: [name, value], ids }: TestedApi,
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
      ...['-m', 'schemathesis.cli', '--config-file', 'schemathesis.toml', 'run', `${url}/openapi.json`],
      ...['--checks', 'all', '--phases', 'examples,coverage,fuzzing,stateful', '--seed', String(seed)],
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
    states.every(status => status === 'success') &&
    test_cases.unique_failures === 0 &&
    errors.length === 0
  )
}
