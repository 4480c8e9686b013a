import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../..')
const PRODUCT = ['src', 'jobs', 'schema', 'config']
const COPIED = ['test', 'tools', 'clients', 'docs', 'package.json', 'vitest.config.ts']
/** Runs and their steps, through the front door. */
const CORE_TESTS = ['test/unit/pipeline', 'integration/changes.test.ts', 'integration/pending.test.ts']
/** The core, with the sandbox as its API. */
const CORE = [
  'schema',
  'config',
  'src/lib',
  'src/deadlines',
  'src/core',
  'src/sync.ts',
  'src/sandbox',
  'src/server/contract',
]
/** A program of the core alone, with its test. */
const ALONE = 'test/integration/core_alone.test.ts'

const FOUND = await readdir(join(ROOT, 'src/extras'), { withFileTypes: true })
const EXTRAS = FOUND.flatMap(entry => (entry.isDirectory() ? [entry.name] : []))

/** Copies the project with this part of the product, whose types alone are compiled. */
async function copyProject(product = PRODUCT): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'without-'))
  onTestFinished(() => rm(copy, { recursive: true, force: true }))
  for (const name of [...product, ...COPIED])
    await cp(join(ROOT, name), join(copy, name), { recursive: true })
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  const types = JSON.parse(await readFile(join(ROOT, 'tsconfig.json'), 'utf8')) as object
  await writeFile(join(copy, 'tsconfig.json'), JSON.stringify({ ...types, include: product }))
  return copy
}

/** Takes extras away: their folders, and their lines in the list. */
async function takeAway(project: string, extras: readonly string[]): Promise<void> {
  const list = join(project, 'src/extras.ts')
  let text = await readFile(list, 'utf8')
  for (const extra of extras) {
    await rm(join(project, 'src/extras', extra), { recursive: true })
    const line = new RegExp(`import \\{ (\\w+) \\} from './extras/${extra}/${extra}.ts'\\n`)
    const [, name] = line.exec(text) ?? []
    text = text.replace(line, '').replace(/= \[(.*)\]/, (_, names: string) => {
      return `= [${names
        .split(', ')
        .filter(one => one !== name)
        .join(', ')}]`
    })
  }
  await writeFile(list, text)
}

async function putBack(project: string): Promise<void> {
  await rm(join(project, 'src/extras'), { recursive: true })
  for (const name of ['src/extras', 'src/extras.ts'])
    await cp(join(ROOT, name), join(project, name), { recursive: true })
}

/** Compiles the project; what did not change since the last time is not checked again. */
async function compile(project: string): Promise<string> {
  const { stdout } = await run(
    join(ROOT, 'node_modules/.bin/tsc'),
    ['--noEmit', '--incremental', '--tsBuildInfoFile', 'types.json'],
    { cwd: project },
  ).catch((error: { stdout: string }) => error)
  return stdout
}

test('without any one of the extras, the program compiles', async () => {
  const project = await copyProject()
  expect(await compile(project)).toBe('')
  for (const extra of EXTRAS) {
    await takeAway(project, [extra])
    expect({ extra, errors: await compile(project) }).toEqual({ extra, errors: '' })
    await putBack(project)
  }
  await rm(join(project, 'src/extras', EXTRAS[0] as string), { recursive: true })
  expect(await compile(project)).toContain('src/extras.ts')
}, 900_000)

/** Runs tests of the project; more than `atLeast` must pass. */
async function testProject(project: string, tests: readonly string[], atLeast: number): Promise<void> {
  const { NODE_OPTIONS: _, VITEST: __, ...environment } = process.env
  const counts = join(project, 'counts.json')
  const tested = await run(
    join(ROOT, 'node_modules/.bin/vitest'),
    ['run', ...tests, '--reporter=json', `--outputFile=${counts}`],
    { cwd: project, env: environment },
  ).catch((error: { stdout: string; stderr: string }) => error)
  const { numPassedTests, numFailedTests } = JSON.parse(
    await readFile(counts, 'utf8').catch(() => {
      throw new Error(`the tests did not begin: ${tested.stdout}${tested.stderr}`)
    }),
  ) as { numPassedTests: number; numFailedTests: number }
  expect(numFailedTests).toBe(0)
  expect(numPassedTests).toBeGreaterThan(atLeast)
}

test('without all extras, the program compiles, and the core works as before', async () => {
  const project = await copyProject()
  await takeAway(project, EXTRAS)
  expect(await compile(project)).toBe('')
  await testProject(project, CORE_TESTS, 40)
}, 900_000)

test('without the marts and all that shows them, the core compiles, and publishes the tables', async () => {
  const project = await copyProject([...CORE, ALONE])
  expect(await compile(project)).toBe('')
  const stores = ['apply', 'export', 'retention', 'row_files', 'sql'].map(name => `test/unit/store/${name}`)
  await testProject(project, [ALONE, 'test/unit/pipeline', ...stores], 60)
}, 900_000)
