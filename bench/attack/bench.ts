import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { companyPaths } from '#src/company.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { sandboxKey } from '#src/sandbox/keys.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import type { World } from '#src/sandbox/world.ts'
import { checkProc } from '../daemon/proc.ts'
import { run } from '../processes.ts'
import { thisMachine } from '../result.ts'
import { ATTACKS, type Attack } from './attackers.ts'
import {
  type Attacks,
  type Crowd,
  measureCrowd,
  peakRss,
  served,
  startServing,
  underAttack,
} from './measure.ts'
import { type AttackBench, judgeAttacks } from './result.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const SLUG = 'bench'
/** Items of the large analysis: 9 MB as JSON. */
const LARGE_ITEMS = 40_000

export type AttackOptions = {
  readonly notices: number
  readonly companies: number
  readonly seconds: number
  readonly seed: string
}

/** Attacks `npm run serve` while somebody asks how it is; progress goes to stderr. */
export async function benchAttack(options: AttackOptions, directory: string): Promise<AttackBench> {
  checkProc()
  const { notices, companies, seconds, seed } = options
  const onStep = (step: string) => void process.stderr.write(`${step}\n`)
  onStep(`full sync of ${notices} notices`)
  const world = generateWorld({ seed, company: SLUG, notices, start: new Date() })
  const large = enlarge(world)
  const apiKey = sandboxKey(seed, SLUG)
  const sandbox = await startSandbox({ companies: [{ slug: SLUG, key: apiKey, world }] })
  const dataDir = join(directory, 'data')
  const env = { API_BASE_URL: sandbox.url, API_KEY: apiKey, COMPANY: SLUG, DATA_DIR: dataDir }
  await mkdir(dataDir)
  await run(MAIN, ['sync', '--full'], { cwd: directory, env: { ...env, LOG_LEVEL: 'error' } })
  await sandbox.close()
  const created = await run(MAIN, ['keys', 'create', '--description', 'bench'], { cwd: directory, env })
  const key = created.stdout.trim()
  const serving = await startServing(directory, { DATA_DIR: dataDir })
  const readySeconds = await served(serving, key)
  const measured: Partial<Record<Attack, Attacks[Attack]>> = {}
  for (const attack of Object.keys(ATTACKS) as Attack[]) {
    onStep(`${attack}: ${ATTACKS[attack]}`)
    const path = `/api/v1/editais/${encodeURIComponent(large)}/analysis`
    measured[attack] = await underAttack(serving, { attack, key, path, seconds }, directory)
  }
  const peakRssBytes = await peakRss(serving.pid)
  await serving.close()
  const restarted = await startServing(directory, { DATA_DIR: dataDir })
  const restartSeconds = await served(restarted, key)
  await restarted.close()
  onStep(`${companies} companies at once`)
  const { lake } = companyPaths(dataDir, SLUG)
  const crowd: Crowd | null = companies > 0 ? await measureCrowd(companies, { from: lake, directory }) : null
  const found = { attacks: measured as Attacks, peakRssBytes, readySeconds, restartSeconds, crowd }
  return { machine: thisMachine(), settings: options, ...found, bars: judgeAttacks(found) }
}

/** Gives one notice an analysis that is as large as any; its id. */
function enlarge(world: World): string {
  const [id = ''] = world.ids()
  const items = Array.from({ length: LARGE_ITEMS }, (_, n) => ({
    ...{ numero_item: n + 1, descricao: `Item ${n + 1}: ${'descrição completa do objeto '.repeat(5)}` },
    ...{ quantidade: n % 97, unidade_medida: 'UN', valor_unitario_estimado: (n % 1000) / 4 },
  }))
  world.update(id, { analysis: { items, analysis_level: 'deep', analyzed: true } })
  return id
}
