import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pluralize } from '#src/lib/count.ts'
import { obtainPython } from '#test/support/python_environment.ts'
import { type Result, reasonOf } from '../result.ts'
import type { Given } from './published.ts'

const AT_ONCE = 2

/** The results or ports of engines that run as separate programs. */
type Heavy = {
  readonly trino?: number
  readonly spark?: { readonly version: string; readonly files: string }
}

/** The Python that has all readers. */
export async function obtainReaders(): Promise<string> {
  return await obtainPython({
    name: 'lake readers',
    requirements: join(import.meta.dirname, 'requirements.txt'),
    module: 'chdb, deltalake, duckdb, polars, pyiceberg, moto, trino',
    least: '3.11',
    below: '3.14',
    user: 'The test with other engines',
  })
}

/** Reads everything with each of these engines. */
export async function* compareAll(
  python: string,
  engines: readonly string[],
  given: Given & Heavy,
): AsyncGenerator<Result> {
  const waiting = [...engines]
  while (waiting.length > 0) {
    const some = waiting.splice(0, AT_ONCE)
    yield* await Promise.all(some.map(engine => compare(python, engine, given)))
  }
}

async function compare(python: string, engine: string, given: Given & Heavy): Promise<Result> {
  const { stdout, stderr, code } = await runPython(python, ['read.py', engine], given)
  if (code !== 0) return { title: engine, wrong: [`  ${reasonOf(stderr)}\n`] }
  const { version, compared, differences } = JSON.parse(stdout) as {
    version: string
    compared: number
    differences: string[]
  }
  const snapshots = pluralize(Object.keys(given.snapshots).length, 'snapshot')
  const place = given.catalog ? `, by ${given.catalog.name}` : ''
  return {
    title: `${version}${place}: ${compared} tables of ${snapshots}`,
    wrong: differences.map(one => `  ${one}\n`),
  }
}

export async function runPython(
  python: string,
  [script = '', ...args]: readonly string[],
  given: object,
): Promise<{ stdout: string; stderr: string; code: number | null }> {
  const child = spawn(python, [join(import.meta.dirname, script), ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(JSON.stringify(given))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { stdout, stderr, code: child.exitCode }
}
