import { OPEN_STATUSES } from '#schema/notice.ts'
import { computeSequence, generateEntry } from './generate.ts'
import {
  chooseRecommendation,
  deepenLevel,
  generateAnalysis,
  type Level,
  reaches,
} from './generate_analysis.ts'
import { formatBrasiliaTime } from './generate_tender.ts'
import { createRandom, type Random } from './random.ts'
import { DISCARD_REASONS } from './vocabulary/buyers.ts'
import { ALERT_TEMPLATES } from './vocabulary/evaluation.ts'
import type { Entry, World } from './world.ts'

export const CHANGES = [
  ...(['arrived', 'advanced', 'deepened', 'discarded', 'expired'] as const),
  ...(['vanished', 'returned', 'silently_changed'] as const),
] as const

export type Change = { readonly what: (typeof CHANGES)[number]; readonly id: string }

/** How many random notices are tried for a change; a world in which all are closed stays quiet. */
const NOTICES_LOOKED_AT = 12
const MAX_MOVES_PER_TICK = 3
const HOUR_MS = 3_600_000

/**
 * Lets a little time pass: notices arrive, move through the company's phases, get deeper analyses, are
 * discarded or expire; rarely one vanishes or comes back, or an analysis changes while `updated_at`
 * stays. Returns what happened. The same world, random sequence and instant give the same changes.
 */
export function tick(world: World, random: Random, now: Date): Change[] {
  const changes: Change[] = []
  if (random.chance(0.5)) changes.push(arrive(world, random, now))
  changes.push(...moveSome(world, random, now))
  const [id] = random.sample(world.ids(), 1)
  if (id !== undefined && random.chance(0.04)) {
    world.remove(id)
    changes.push({ what: 'vanished', id })
  }
  const [gone] = random.sample(world.removedIds(), 1)
  if (gone !== undefined && random.chance(0.03)) {
    world.restore(gone)
    changes.push({ what: 'returned', id: gone })
  }
  if (random.chance(0.1)) changes.push(...changeSilently(world, random))
  return changes
}

type LivingOptions = {
  readonly intervalMs: number
  readonly seed?: string | number
  readonly now?: () => Date
  readonly onTick?: (changes: readonly Change[]) => void
}

/** Ticks at an interval until the returned function is called. Does not keep the process alive. */
export function startLiving(world: World, options: LivingOptions): () => void {
  const { intervalMs, seed = 'living', now = () => new Date(), onTick } = options
  const random = createRandom(seed)
  const timer = setInterval(() => {
    const changes = tick(world, random, now())
    onTick?.(changes)
  }, intervalMs)
  timer.unref()
  return () => clearInterval(timer)
}

function arrive(world: World, random: Random, now: Date): Change {
  const entry = generateEntry({
    seed: `arrival ${random.hex(8)}`,
    company: random.hex(8),
    sequence: computeSequence('arrival', world.size),
    publishedAt: new Date(now.getTime() - random.next() * 6 * HOUR_MS),
    now,
  })
  world.put(entry)
  return { what: 'arrived', id: entry.edital.id }
}

function moveSome(world: World, random: Random, now: Date): Change[] {
  const changes: Change[] = []
  const moves = random.int(1, MAX_MOVES_PER_TICK)
  for (const id of random.sample(world.ids(), NOTICES_LOOKED_AT)) {
    if (changes.length === moves) break
    const entry = world.entry(id)
    const what = entry && move(world, entry, random, now)
    if (what) changes.push({ what, id })
  }
  return changes
}

/** Draws what happens next to a notice, which depends on its phase; closed ones stay as they are. */
function move(world: World, entry: Entry, random: Random, now: Date): Change['what'] | null {
  const { status } = entry.edital
  if (!OPEN_STATUSES.includes(status)) return null
  if (isSessionOver(entry, now)) return change(world, entry, now, 'expired', { status: 'expired' })
  if (status === 'ready') return null
  const advised = readAdvice(entry) !== 'nao_recomendado'
  if (random.chance(advised ? 0.15 : 0.5)) {
    return change(world, entry, now, 'discarded', {
      status: 'discarded',
      discard_reason: random.pick(DISCARD_REASONS),
      participation_confirmed: false,
      committed_at: undefined,
    })
  }
  const level = readLevel(entry)
  const next = deepenLevel(level)
  if (next !== null && (random.chance(0.4) || !reaches(level, NEEDED[status] ?? 'none'))) {
    return change(world, entry, now, 'deepened', {}, next)
  }
  return advised ? advance(world, entry, now) : null
}

/** How deep an analysis must be before its notice leaves the phase. */
const NEEDED: Readonly<Record<string, Level>> = { screening: 'simple', analysis: 'medium', pricing: 'deep' }

function advance(world: World, entry: Entry, now: Date): Change['what'] {
  const status = { screening: 'analysis', analysis: 'pricing' }[entry.edital.status] ?? 'ready'
  const committed = status === 'ready' && entry.edital.participation_confirmed !== true
  return change(world, entry, now, 'advanced', {
    status,
    ...(committed && { participation_confirmed: true, committed_at: now.toISOString() }),
  })
}

function change(
  world: World,
  entry: Entry,
  now: Date,
  what: Change['what'],
  edital: Readonly<Record<string, unknown>>,
  level?: Level,
): Change['what'] {
  const analysis = level && deepened(entry, level)
  world.update(entry.edital.id, { edital, updatedAt: now, ...(analysis && { analysis }) })
  return what
}

/** Items found by an earlier evaluation are facts of the notice: a deeper one only judges them. */
function deepened({ edital, analysis }: Entry, level: Level) {
  const items = analysis?.items
  return generateAnalysis(edital, level, Array.isArray(items) && items.length > 0 ? items : undefined)
}

function changeSilently(world: World, random: Random): Change[] {
  const id = random
    .sample(world.ids(), NOTICES_LOOKED_AT)
    .find(id => reaches(readLevel(world.entry(id)), 'medium'))
  const analysis = id === undefined ? undefined : world.entry(id)?.analysis
  if (id === undefined || !analysis) return []
  const { type, severities, title, description, action, thesis } = random.pick(ALERT_TEMPLATES)
  const alert = {
    type,
    severity: random.pick(severities),
    title,
    description,
    action_type: action,
    legal_thesis: thesis,
  }
  world.update(id, { analysis: { alerts: [...(analysis.alerts as unknown[]), alert] } })
  return [{ what: 'silently_changed', id }]
}

function readLevel(entry: Entry | undefined): Level {
  return (entry?.analysis?.analysis_level as Level | undefined) ?? 'none'
}

function readAdvice({ edital, analysis }: Entry): unknown {
  const verdict = analysis?.verdict as { recommendation?: unknown } | undefined
  return verdict?.recommendation ?? chooseRecommendation(edital.id)
}

/** Sessions without an offset are Brasília time; date-only ones last until the day is over. */
function isSessionOver({ edital }: Entry, now: Date): boolean {
  const session = edital.data_sessao
  if (typeof session !== 'string' || session === '') return false
  const today = formatBrasiliaTime(now)
  return session.slice(0, 16) < today.slice(0, session.length > 10 ? 16 : 10)
}
