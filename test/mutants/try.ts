import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Mutant } from './mutant.ts'

const PROJECT = join(import.meta.dirname, '../..')
/** Everything that a checkout has, but no data, keys, history or libraries. */
const LEFT_OUT: readonly string[] = ['.git', '.tmp', '.env', 'data', 'dist', 'node_modules']
/** They notice any other text, whatever it does: a mutant must be caught by what it does. */
const BY_TEXT: readonly string[] = ['test/unit/mutants.test.ts', 'test/unit/schema/tables.test.ts']

/** Of the tests that failed, the first, and how many others; null where all passed. */
export type Caught = { readonly by: string; readonly others: number } | null

/**
 * Runs the unit tests on a copy of the project with the mutant in it; without one, on the project as it is.
 * @throws Error where its text does not stand in its file once, or no test ran.
 */
export async function tryMutant(mutant: Mutant | null): Promise<Caught> {
  const copy = await mkdtemp(join(tmpdir(), 'editais-sync-mutant-'))
  try {
    for (const name of await readdir(PROJECT))
      if (!LEFT_OUT.includes(name)) await cp(join(PROJECT, name), join(copy, name), { recursive: true })
    for (const name of BY_TEXT) await rm(join(copy, name))
    await symlink(join(PROJECT, 'node_modules'), join(copy, 'node_modules'))
    if (mutant !== null) await mutate(copy, mutant)
    return await runUnitTests(copy)
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

async function mutate(copy: string, { file, from, to }: Mutant): Promise<void> {
  const path = join(copy, file)
  const parts = (await readFile(path, 'utf8')).split(from)
  if (parts.length !== 2) throw new Error(`${file} holds ${parts.length - 1} times, not once: ${from}`)
  await writeFile(path, parts.join(to))
}

type TestResults = {
  readonly numTotalTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[]
  }[]
}

async function runUnitTests(copy: string): Promise<Caught> {
  const path = join(copy, 'results.json')
  const vitest = join(copy, 'node_modules/vitest/vitest.mjs')
  // No test is waited for once one has failed; a mutant that hangs is caught by a timeout.
  const options = ['--bail', '1', '--no-cache', '--reporter', 'json', '--outputFile', path]
  const { output, isGreen } = await new Promise<{ output: string; isGreen: boolean }>(resolve => {
    execFile(
      process.execPath,
      [vitest, 'run', '--project', 'unit', ...options],
      { cwd: copy, maxBuffer: 1e8 },
      (error, stdout, stderr) => resolve({ output: stdout + stderr, isGreen: error === null }),
    )
  })
  const results = JSON.parse(await readFile(path, 'utf8').catch(() => '{}')) as Partial<TestResults>
  if (!results.numTotalTests) throw new Error(`no test ran:\n${output}`)
  const failed = (results.testResults ?? []).flatMap(file => {
    const tests = file.assertionResults.filter(({ status }) => status === 'failed')
    if (tests.length > 0) return tests.map(({ fullName }) => fullName)
    return file.status === 'failed' && file.message !== '' ? [`${file.name}: ${file.message}`] : []
  })
  const [by] = failed
  if (by !== undefined) return { by, others: failed.length - 1 }
  // A worker that crashed, for example in a database that was closed too early, has no failed test.
  return isGreen ? null : { by: 'the end of the run: a test process crashed', others: 0 }
}
