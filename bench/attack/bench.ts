import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generateWorld } from '#src/sandbox/generate.ts'
import { sandboxKey } from '#src/sandbox/keys.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { companyPaths } from '#src/store/company.ts'
import { checkProc } from '../daemon/proc.ts'
import { startRedis } from '../daemon/redis.ts'
import { run } from '../processes.ts'
import { thisMachine } from '../result.ts'
import { ATTACKS, type Attack, type AttackOrder } from './attackers.ts'
import { addHostileNotices } from './hostile_notices.ts'
import {
  type Attacks,
  type Crowd,
  measureCrowd,
  peakRss,
  type Server,
  type Serving,
  served,
  startServing,
  underAttack,
} from './measure.ts'
import { type AttackBench, judgeAttacks } from './result.ts'
import { measureTexts, TEXTS, type TextAttack, type TextsFound, type TextsMeasured } from './texts.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))
const SLUG = 'bench'
/** The daemon has no run during the attacks. */
const AT_REST = { SYNC_CRON: '0 0 1 1 *' }
/** Besides the one that reads: streams are limited for each key. */
const MORE_KEYS = 7

export type AttackOptions = {
  readonly notices: number
  readonly companies: number
  readonly seconds: number
  readonly seed: string
}

/** Attacks `npm run serve` and the daemon during health checks; progress goes to stderr. */
export async function benchAttack(options: AttackOptions, directory: string): Promise<AttackBench> {
  checkProc()
  const { notices, companies } = options
  onStep(`full sync of ${notices} notices`)
  const place = await prepare(options, directory)
  const serve = await startServing(directory, place.env)
  const readySeconds = await served(serve, place.key)
  const servers = { serve: await attackAll(serve, { ...options, ...place }, directory) }
  const restarted = await startServing(directory, place.env)
  const restartSeconds = await served(restarted, place.key)
  await restarted.close()
  const redis = await startRedis(join(directory, 'redis'))
  const daemon = await startServing(directory, { ...place.env, REDIS_URL: redis.url, ...AT_REST }, 'start')
  await served(daemon, place.key)
  const start = await attackAll(daemon, { ...options, ...place }, directory)
  await place.close()
  onStep(`${companies} companies at once`)
  const { lake } = companyPaths(place.env.DATA_DIR, SLUG)
  const crowd: Crowd | null = companies > 0 ? await measureCrowd(companies, { from: lake, directory }) : null
  const found = {
    ...{ servers: { ...servers, start }, readySeconds, restartSeconds, crowd },
    texts: await attackWithTexts({ seed: options.seed, within: directory, redisUrl: redis.url }),
  }
  await redis.close()
  return { machine: thisMachine(), settings: options, ...found, bars: judgeAttacks(found) }
}

async function attackWithTexts(about: Parameters<typeof measureTexts>[1]): Promise<TextsFound> {
  const found: Partial<Record<TextAttack, TextsMeasured>> = {}
  for (const attack of Object.keys(TEXTS) as TextAttack[]) {
    onStep(`sync and serve: ${TEXTS[attack]}`)
    found[attack] = await measureTexts(attack, about)
  }
  return found as TextsFound
}

function onStep(step: string): void {
  process.stderr.write(`${step}\n`)
}

/** Syncs a company and creates a key for its API. */
async function prepare({ notices, seed }: AttackOptions, directory: string) {
  const world = generateWorld({ seed, company: SLUG, notices, start: new Date() })
  const { large, dashed } = addHostileNotices(world)
  const path = `/api/v1/editais/${encodeURIComponent(large)}/analysis`
  const page = `/editais/${encodeURIComponent(dashed)}`
  const apiKey = sandboxKey(seed, SLUG)
  const sandbox = await startSandbox({ companies: [{ slug: SLUG, key: apiKey, world }] })
  const dataDir = join(directory, 'data')
  const env = { API_BASE_URL: sandbox.url, API_KEY: apiKey, COMPANY: SLUG, DATA_DIR: dataDir }
  await mkdir(dataDir)
  await run(MAIN, ['sync', '--full'], { cwd: directory, env: { ...env, LOG_LEVEL: 'error' } })
  const keys: string[] = []
  for (let n = 0; n <= MORE_KEYS; n += 1) {
    const created = await run(MAIN, ['keys', 'create', '--description', `bench ${n}`], {
      cwd: directory,
      env,
    })
    keys.push(created.stdout.trim())
  }
  const [key = '', ...moreKeys] = keys
  return { env, path, page, key, moreKeys, close: () => sandbox.close() }
}

async function attackAll(
  serving: Serving,
  { key, moreKeys, path, page, notices, seconds }: AttackOptions & Omit<AttackOrder, 'attack' | 'port'>,
  directory: string,
): Promise<Server> {
  const attacks: Partial<Record<Attack, Attacks[Attack]>> = {}
  for (const attack of Object.keys(ATTACKS) as Attack[]) {
    onStep(`${serving.command}, ${attack}: ${ATTACKS[attack]}`)
    attacks[attack] = await underAttack(
      serving,
      { attack, key, moreKeys, path, page, notices, seconds },
      directory,
    )
  }
  const peakRssBytes = await peakRss(serving.pid)
  await serving.close()
  return { attacks: attacks as Attacks, peakRssBytes }
}
