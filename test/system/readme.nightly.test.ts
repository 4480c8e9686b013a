import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { surroundings, temporaryDirectory } from '#test/support/project.ts'
import { openRedis } from '#test/support/redis.ts'
import { KEY } from '#test/support/synced.ts'

/** The README, line by line, in a fresh clone. Needs git, and the npm registry. */

const PROJECT = join(import.meta.dirname, '../..')
const WITHIN_MS = 600_000

/** What each command prints, in shape. A service is asked to stop once it has printed it. */
const COMMANDS: Readonly<Record<string, RegExp | { readonly service: RegExp } | 'tested elsewhere'>> = {
  'npm ci && npx editais demo': /report +# one HTML file[\s\S]*keys link[\s\S]*serve/,
  'npx editais init': /\.env/,
  'npx editais sync --plan': /4\d notices|40/,
  'npx editais sync --full': /"status":"ok".*"added":40|40 new/,
  'npx editais sync': /"added":0|up to date|nothing/i,
  'npx editais start': { service: /Listening on http:\/\/127\.0\.0\.1/ },
  'docker compose up -d --build --wait': 'tested elsewhere',
  'duckdb -readonly data/acme/lake/latest/catalog.duckdb': 'tested elsewhere',
  'npm ci && npm test': 'tested elsewhere',
  'editais status --all': /acme/,
  'editais report': /\.html/,
  'editais ask pendencias --uf SP': /./,
  'editais ask': /pendencias/,
  'editais query "SELECT * FROM funil"': /fase/,
  'editais export --xlsx --to editais.xlsx': /editais\.xlsx/,
  'editais doctor': /✓ raw log/,
  'editais sync --allow-mass-delete': /"status":"ok"|up to date|nothing/i,
  'editais serve': { service: /Listening on http:\/\/127\.0\.0\.1/ },
}

/** The commands of a README: its indented lines, and those of its table, in their order. */
function commandsOf(readme: string): string[] {
  return readme.split('\n').flatMap(line => {
    const indented = /^ {4}(\S.*?)(?:\s+#.*)?$/.exec(line)?.[1]
    if (indented !== undefined) return [indented]
    return line.startsWith('| ')
      ? [...line.matchAll(/`(editais [^`]+)`/g)].map(([, command = '']) => command)
      : []
  })
}

type Environment = Readonly<Record<string, string>>

/** Runs a line of a shell. @param until what a service prints when a person may press Ctrl-C, which reaches all its processes. */
async function run(line: string, cwd: string, environment: Environment, until: RegExp | null = null) {
  // npm has the settings of the machine, such as its registry.
  const env = { ...process.env, ...surroundings(), ...environment }
  const child = spawn('bash', ['-c', line], { cwd, env, detached: true })
  let output = ''
  let isStopped = false
  const read = (text: Buffer) => {
    output += text
    if (!until?.test(output) || isStopped) return
    isStopped = true
    process.kill(-(child.pid as number), 'SIGINT')
  }
  child.stdout.on('data', read)
  child.stderr.on('data', read)
  const code = await new Promise<number | null>(resolve => child.on('close', resolve))
  return { code, output }
}

test(
  'every command of the README does in a fresh clone what the README says',
  async () => {
    const clone = join(await temporaryDirectory(), 'editais-sync')
    expect((await run(`git clone --quiet ${PROJECT} ${clone}`, PROJECT, {})).code).toBe(0)
    const world = generateWorld({ seed: 11, company: 'acme', notices: 40, start: new Date() })
    const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
    onTestFinished(() => sandbox.close())
    const { url: REDIS_URL } = await openRedis()
    const api = { API_BASE_URL: sandbox.url, API_KEY: KEY, COMPANY: 'acme' }
    const readme = commandsOf(await readFile(join(clone, 'README.md'), 'utf8'))
    expect(readme.toSorted()).toEqual(Object.keys(COMMANDS).toSorted())
    for (const command of readme) {
      const expected = COMMANDS[command]
      if (expected === undefined || expected === 'tested elsewhere') continue
      const isInit = command.endsWith(' init')
      const line = `${command.startsWith('editais') ? 'npx ' : ''}${command}${isInit ? ' --yes' : ''}`
      const shape = expected instanceof RegExp ? expected : expected.service
      const environment = isInit ? api : { REDIS_URL, HTTP_PORT: '0' }
      const { code, output } = await run(line, clone, environment, expected instanceof RegExp ? null : shape)
      expect(output, command).toMatch(shape)
      if (expected instanceof RegExp) expect(code, `${command}: ${output}`).toBe(0)
      else expect(output, command).toContain('Stopped.')
    }
  },
  WITHIN_MS,
)
