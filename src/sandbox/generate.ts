import { NOTICE, type Notice, type STATUSES } from '#schema/notice.ts'
import { chooseRecommendation, generateAnalysis, type Level } from './generate_analysis.ts'
import { formatBrasiliaTime, generateTender } from './generate_tender.ts'
import { withPlainFields } from './plain_fields.ts'
import { computeFraction, createRandom, type Random } from './random.ts'
import { DISCARD_REASONS } from './vocabulary/buyers.ts'
import { type Entry, World } from './world.ts'

type Status = (typeof STATUSES)[number]

const DAY_MS = 86_400_000
/** Maximum age of a notice at the world's start; most are much younger. */
const MAX_AGE_DAYS = 365

type WorldOptions = {
  /** The market: companies with the same seed follow tenders of one market and share half of them. */
  readonly seed: string | number
  /** The company's slug; decides which tenders it follows, their phases and their ids. */
  readonly company: string
  readonly notices: number
  /** Nothing in the world is newer than this. */
  readonly start: Date
}

/** Generates a company's whole world. The same options give the same documents. */
export function generateWorld({ seed, company, notices, start }: WorldOptions): World {
  return new World(
    Array.from({ length: notices }, (_, position) => {
      const sequence = computeSequence(`${seed} ${company}`, position)
      const age = MAX_AGE_DAYS * computeFraction(`${seed} age ${sequence}`) ** 2.5
      return generateEntry({
        seed,
        company,
        sequence,
        publishedAt: new Date(start.getTime() - age * DAY_MS),
        now: start,
      })
    }),
  )
}

type EntryOptions = {
  readonly seed: string | number
  readonly company: string
  /** The tender's number in the market. */
  readonly sequence: number
  readonly publishedAt: Date
  readonly now: Date
}

/** Generates a notice as the company sees it at `now`: public facts, phase, and an analysis as deep as the phase. */
export function generateEntry(options: EntryOptions): Entry {
  const { seed, company, sequence, publishedAt, now } = options
  const random = createRandom(`${seed} ${company} ${sequence}`)
  const tender = generateTender(String(seed), sequence, publishedAt)
  const id = random.hex(32)
  const createdAt = between(
    random,
    publishedAt,
    new Date(Math.min(now.getTime(), publishedAt.getTime() + DAY_MS / 2)),
  )
  const closed = tender.data_sessao !== undefined && tender.data_sessao < formatBrasiliaTime(now)
  const phase = generatePhase(random, {
    closed,
    fresh: now.getTime() - createdAt.getTime() < DAY_MS / 2,
    advised: chooseRecommendation(id) !== 'nao_recomendado',
  })
  const updatedAt = between(random, createdAt, now)
  const generated = {
    id,
    ...tender,
    status: phase.status,
    participation_confirmed: phase.confirmed,
    ...(phase.status === 'discarded' && { discard_reason: random.pick(DISCARD_REASONS) }),
    ...(phase.confirmed && { committed_at: between(random, createdAt, updatedAt).toISOString() }),
    created_at: createdAt.toISOString(),
    updated_at: instantText(random, updatedAt),
  } satisfies Partial<Notice>
  const edital = withPlainFields(NOTICE, generated, `${seed} ${sequence} plain`)
  return { edital, analysis: generateAnalysis(edital, phase.level) }
}

/** Returns the number of the tender that a company follows at a position: one of two per position. */
export function computeSequence(company: string, position: number): number {
  return 1 + 2 * position + (computeFraction(`${company} choice ${position}`) < 0.5 ? 0 : 1)
}

type Phase = { status: Status; level: Level; confirmed: boolean }

type Circumstances = {
  /** The session is over. */
  closed: boolean
  /** Found too recently for the company to have acted on it. */
  fresh: boolean
  /** False if the analysis advises against it: such a notice is not priced. */
  advised: boolean
}

function generatePhase(random: Random, { closed, fresh, advised }: Circumstances): Phase {
  const status = fresh
    ? 'screening'
    : random.weighted<Status>(
        closed
          ? [
              ['expired', 55],
              ['discarded', 33],
              ['ready', advised ? 10 : 0],
              ['pricing', advised ? 5 : 0],
            ]
          : [
              ['screening', 40],
              ['analysis', 22],
              ['pricing', advised ? 14 : 0],
              ['ready', advised ? 9 : 0],
              ['discarded', 18],
            ],
      )
  const confirmed = status === 'ready' || (status === 'pricing' && random.chance(0.7))
  return { status, level: random.weighted(LEVELS_OF_PHASE[status]), confirmed }
}

/** How deep analyses go in each phase. */
const LEVELS_OF_PHASE: Readonly<Record<Status, readonly (readonly [Level, number])[]>> = {
  screening: [
    ['none', 30],
    ['simple', 70],
  ],
  analysis: [
    ['simple', 25],
    ['medium', 40],
    ['deep', 35],
  ],
  pricing: [
    ['medium', 45],
    ['deep', 55],
  ],
  ready: [['deep', 1]],
  discarded: [
    ['none', 25],
    ['simple', 45],
    ['medium', 30],
  ],
  expired: [
    ['none', 30],
    ['simple', 35],
    ['medium', 15],
    ['deep', 20],
  ],
}

function between(random: Random, from: Date, to: Date): Date {
  return new Date(from.getTime() + Math.floor(random.next() * (to.getTime() - from.getTime())))
}

/** Returns the instant in one of the forms that the API's writers use: milliseconds, microseconds or an offset. */
function instantText(random: Random, instant: Date): string {
  const iso = instant.toISOString()
  return random.weighted([
    [iso, 70],
    [iso.replace('Z', `${random.int(100, 999)}Z`), 20],
    [iso.replace('Z', '+00:00'), 10],
  ])
}
