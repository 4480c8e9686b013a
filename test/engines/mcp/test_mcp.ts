import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { getMessage } from '#src/lib/errors.ts'
import { keyIn, MIRRORED, type Served, Servers } from '#test/api/servers.ts'
import type { Result } from '#test/engines/result.ts'
import { CACHE, replaceCached } from '#test/support/cached.ts'
import { say } from '#test/support/system_packages.ts'

/** The protocol's own inspector calls the MCP server on both transports, and checks its schemas. */

const MAIN = join(import.meta.dirname, '../../../src/cli/main.js')
const INSPECTOR = {
  package: '@modelcontextprotocol/inspector',
  version: '2.12.0',
  before: '2026-11-01',
  script: 'clients/launcher/build/index.js',
}
const CALL_WITHIN_MS = 60_000
const LIST = '/api/v1/editais'

type Answered = { readonly code: number; readonly stdout: string; readonly stderr: string }
type Call = {
  readonly what: string
  readonly args: readonly string[]
  /** What is wrong with the answer; null if nothing is. */
  readonly problem: (answer: Record<string, unknown>) => string | null
}

export async function* testMcp(_: Servers, directory: string): AsyncGenerator<Result> {
  const inspector = await obtainNpmProgram(INSPECTOR)
  // Of its own: the data of another test's mirror is another company's.
  const own = join(directory, 'mcp')
  await mkdir(own)
  const servers = new Servers(own)
  try {
    yield* inspectBoth(servers, { inspector, directory: own })
  } finally {
    await servers.stop()
  }
}

async function* inspectBoth(
  servers: Servers,
  { inspector, directory }: { readonly inspector: string; readonly directory: string },
): AsyncGenerator<Result> {
  const sandbox = await servers.startSandbox(['--notices-per-company', '30'])
  const mirror = await servers.startMirror(sandbox)
  const create = ['keys', 'create', '--description', 'agent', '--scopes', 'read,sql']
  const key = keyIn(await servers.runBehindMirror(create, sandbox))
  const targets = {
    'standard input and output': [
      ...['-e', `DATA_DIR=${join(directory, 'data')}`, '-e', `COMPANY=${MIRRORED}`],
      ...[process.execPath, MAIN, 'mcp'],
    ],
    HTTP: [`${mirror.url}/api/v1/mirror/mcp`, '--header', `Authorization: Bearer ${key}`],
  }
  const calls = callsOf(await documentsOf(mirror))
  for (const [transport, target] of Object.entries(targets)) {
    const wrong: string[] = []
    for (const call of calls) {
      const problem = judge(call, await inspect(inspector, [...target, ...call.args], directory))
      if (problem !== null) wrong.push(`  ${call.what}: ${problem}\n`)
    }
    const title = `MCP Inspector ${INSPECTOR.version}, ${transport}: ${calls.length} calls, and its strict checks of the tools`
    yield { title, wrong }
  }
}

type Documents = { readonly ids: readonly string[] }

async function documentsOf({ url, key }: Served): Promise<Documents> {
  const answer = await fetch(`${url}${LIST}?limit=200`, { headers: { 'x-api-key': key } })
  const { editais } = (await answer.json()) as { editais: { id: string }[] }
  return { ids: editais.map(({ id }) => id) }
}

function callsOf({ ids }: Documents): readonly Call[] {
  const [first = ''] = ids
  const tool = (name: string, ...pairs: string[]) => [
    ...['--method', 'tools/call', '--tool-name', name],
    ...pairs.flatMap(pair => ['--tool-arg', pair]),
  ]
  const data = (answer: Record<string, unknown>) =>
    JSON.parse((answer.content as { text: string }[])[0]?.text ?? '{}') as Record<string, unknown>
  const is = (given: unknown, wanted: unknown) =>
    JSON.stringify(given) === JSON.stringify(wanted)
      ? null
      : `${JSON.stringify(given)?.slice(0, 300)} instead of ${JSON.stringify(wanted)}`
  const has = (list: unknown, name: string) =>
    (list as { name: string }[]).some(one => one.name === name) ? null : `no ${name}`
  return [
    {
      what: 'tools/list --strict',
      args: ['--method', 'tools/list', '--strict'],
      problem: ({ tools }) => has(tools, 'query'),
    },
    {
      what: 'resources/list',
      args: ['--method', 'resources/list'],
      problem: ({ resources }) => has(resources, 'dictionary'),
    },
    {
      what: 'resources/templates/list',
      args: ['--method', 'resources/templates/list'],
      problem: ({ resourceTemplates }) => has(resourceTemplates, 'relation'),
    },
    {
      what: 'resources/read',
      args: ['--method', 'resources/read', '--uri', 'editais://dictionary/editais'],
      problem: answer => (JSON.stringify(answer).includes('edital_id') ? null : 'no column edital_id'),
    },
    {
      what: 'prompts/list',
      args: ['--method', 'prompts/list'],
      problem: ({ prompts }) => has(prompts, 'vencimentos'),
    },
    {
      what: 'prompts/get',
      args: ['--method', 'prompts/get', '--prompt-name', 'vencimentos'],
      problem: answer => (JSON.stringify(answer).includes('list_due') ? null : 'it names no tool'),
    },
    {
      what: 'search_notices',
      args: tool('search_notices', 'limit=1'),
      problem: answer => is(data(answer).total, ids.length),
    },
    {
      what: 'get_notice',
      args: tool('get_notice', `edital_id=${first}`),
      problem: answer => (JSON.stringify(data(answer)).includes(first) ? null : `no notice ${first}`),
    },
    {
      what: 'query',
      args: tool('query', 'sql=SELECT count(*) AS n FROM editais WHERE deleted_at IS NULL'),
      problem: answer => is(data(answer).rows, [[ids.length]]),
    },
  ]
}

function judge({ problem }: Call, { code, stdout, stderr }: Answered): string | null {
  if (code !== 0) return `exit code ${code}: ${(stderr || stdout).slice(-500)}`
  try {
    return problem(JSON.parse(stdout) as Record<string, unknown>)
  } catch {
    return `no JSON: ${stdout.slice(0, 300)}`
  }
}

async function inspect(inspector: string, args: readonly string[], directory: string): Promise<Answered> {
  const { PATH = '' } = process.env
  // Its settings are written below HOME.
  const options = { env: { PATH, HOME: directory }, timeout: CALL_WITHIN_MS, maxBuffer: 64 * 1024 * 1024 }
  try {
    const command = [inspector, '--cli', ...args]
    return { code: 0, ...(await promisify(execFile)(process.execPath, command, options)) }
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as Partial<Answered>
    return { code: typeof code === 'number' ? code : 1, stdout, stderr }
  }
}

const INSTALL_TIMEOUT_MS = 300_000
const PIN = 'installed.json'

/** A program from npm in a directory of its own, because it is large and only one test runs it. */
type NpmProgram = {
  readonly package: string
  readonly version: string
  /** A day: what it depends on is as it was then. */
  readonly before: string
  /** In the package. */
  readonly script: string
}

/**
 * The script of a program below `node_modules/.cache`; installs it if necessary, without running setup code.
 * @throws Error with a short message if it cannot be installed.
 */
async function obtainNpmProgram(program: NpmProgram): Promise<string> {
  const { package: name, version, before, script } = program
  const directory = join(CACHE, name.replace(/\W+/g, '-').replace(/^-/, ''))
  const pin = JSON.stringify({ name, version, before })
  const installed = join(directory, 'node_modules', name, script)
  if ((await readFile(join(directory, PIN), 'utf8').catch(() => null)) === pin) return installed
  say(`Installing ${name} ${version} from npm into node_modules/.cache.`)
  try {
    await replaceCached(directory, async unfinished => {
      const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--before', before]
      await promisify(execFile)(
        'npm',
        ['install', '--prefix', unfinished, ...options, `${name}@${version}`],
        // Outside the project, whose own package.json it must not read.
        { cwd: unfinished, timeout: INSTALL_TIMEOUT_MS },
      )
      await writeFile(join(unfinished, PIN), pin)
    })
  } catch (error) {
    throw new Error(
      `${name} could not be installed from npm: ${getMessage(error).split('\n')[0]} Check the network.`,
    )
  }
  return installed
}
