import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generateWorld } from '#src/sandbox/generate.ts'
import { sandboxKey } from '#src/sandbox/keys.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import type { Edital } from '#src/sandbox/world.ts'
import { runCosted } from '../cost.ts'
import { type Health, watchHealth } from '../daemon/watch.ts'
import { run } from '../processes.ts'
import { peakRss, type SERVERS, type Serving, served, startServing } from './measure.ts'

/** Companies whose notices have texts below the limit of an answer, 32 MB, but far beyond what anybody writes. */
export const TEXTS = {
  one: 'one objeto of 25 MB',
  objetos: '200 notices with an objeto of 100 kB',
  modalidades: '300 notices with a modalidade of 75 kB',
  many: '3,000 notices with an objeto of 35 kB, just long enough to be cut',
  most: '3,000 notices with an objeto of 30 kB, just too short to be cut',
} as const
export type TextAttack = keyof typeof TEXTS

const WRITTEN: Readonly<Record<TextAttack, { notices: number; field: keyof Edital; bytes: number }>> = {
  one: { notices: 1, field: 'objeto', bytes: 25_000_000 },
  objetos: { notices: 200, field: 'objeto', bytes: 100_000 },
  modalidades: { notices: 300, field: 'modalidade', bytes: 75_000 },
  many: { notices: 3000, field: 'objeto', bytes: 35_000 },
  most: { notices: 3000, field: 'objeto', bytes: 30_000 },
}
const WORD = 'ação '
/** Notices as usual, besides. */
const HEALTHY = 20
const SLUG = 'bench'
const MAIN = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))

/** How a company with long texts is synced, and then served by a new server. */
export type TextsMeasured = {
  readonly loaded: number
  readonly notices: number
  readonly syncSeconds: number
  readonly syncPeakRssBytes: number
  readonly servers: Readonly<Record<(typeof SERVERS)[number], TextsServed>>
}

/** How a server behaves until it serves the company; its builders prepare everything. */
export type TextsServed = {
  /** From its start to its first answer. */
  readonly readySeconds: number
  readonly peakRssBytes: number
  readonly health: Health
}

export type TextsFound = Readonly<Record<TextAttack, TextsMeasured>>

/** @throws Error if the sync fails, or the company is not served. */
export async function measureTexts(
  attack: TextAttack,
  { seed, within, redisUrl }: { readonly seed: string; readonly within: string; readonly redisUrl: string },
): Promise<TextsMeasured> {
  const { notices, field, bytes } = WRITTEN[attack]
  const world = generateWorld({ seed, company: SLUG, notices: notices + HEALTHY, start: new Date() })
  for (const [n, id] of world.ids().slice(0, notices).entries())
    world.update(id, { edital: { [field]: `${n} ${WORD.repeat(bytes / Buffer.byteLength(WORD))}` } })
  const key = sandboxKey(seed, SLUG)
  const sandbox = await startSandbox({ companies: [{ slug: SLUG, key, world }] })
  const directory = join(within, `texts-${attack}`)
  await mkdir(join(directory, 'data'), { recursive: true })
  const env = { API_BASE_URL: sandbox.url, API_KEY: key, COMPANY: SLUG, DATA_DIR: join(directory, 'data') }
  try {
    const args = ['sync', '--full', '--json']
    const sync = await runCosted({ file: MAIN, args, cwd: directory, env: { ...env, LOG_LEVEL: 'error' } })
    const created = await run(MAIN, ['keys', 'create', '--description', 'bench'], { cwd: directory, env })
    const redis = { REDIS_URL: redisUrl, REDIS_PREFIX: `texts-${attack}` }
    const serve = async (command: (typeof SERVERS)[number]) =>
      await serveTexts(await startServing(directory, { ...env, ...redis }, command), created.stdout.trim())
    const servers = { serve: await serve('serve'), start: await serve('start') }
    return {
      loaded: (JSON.parse(sync.stdout) as { loaded: number }).loaded,
      notices: notices + HEALTHY,
      syncSeconds: sync.wallSeconds,
      syncPeakRssBytes: sync.peakRssBytes,
      servers,
    }
  } finally {
    await sandbox.close()
  }
}

async function serveTexts(serving: Serving, key: string): Promise<TextsServed> {
  const watch = watchHealth(serving)
  const readySeconds = await served(serving, key)
  const health = await watch.end()
  const peakRssBytes = await peakRss(serving.pid)
  await serving.close()
  return { readySeconds, peakRssBytes, health }
}
