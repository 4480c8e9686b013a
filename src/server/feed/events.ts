import { ANALYSIS, REPEATED_FIELDS } from '#schema/analysis.ts'
import { NOTICE } from '#schema/notice.ts'
import type { Field, Fields } from '#schema/record.ts'
import { isSameTime, readTime } from '#schema/times.ts'
import { hashContent } from '#src/lib/hash.ts'

/**
 * A document of the log as the mirror serves it (`documents.ts`): the JSON text of each field. A field that is not served is
 * absent, so two documents with the same fields are served alike.
 */
type ServedFields = Readonly<Record<string, string>>

/** A time that is served as an instant in UTC; others are served as they were sent. */
const INSTANT = /:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)$/
/** With an offset, it may be in a year of UTC that has no four digits. */
const FIRST_OR_LAST_YEAR = /^(?:0001|9999).*:\d\d$/

const NOTICE_FIELDS = without(NOTICE, ['id'])
/** Fields of the analysis. Those that repeat the notice's are served from the notice. */
const ANALYSIS_FIELDS = without(ANALYSIS, REPEATED_FIELDS)

/** Returns the fields of a notice, except its id. */
export function pickNoticeFields(document: object): ServedFields {
  return served(document, NOTICE_FIELDS)
}

/** Returns the fields of an analysis, except those of its notice. */
export function pickAnalysisFields(document: object): ServedFields {
  return served(document, ANALYSIS_FIELDS)
}

function without(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}

function served(document: object, fields: Fields): ServedFields {
  return Object.fromEntries(
    Object.entries(servedObject(document, fields)).map(([name, value]) => [name, JSON.stringify(value)]),
  )
}

function servedObject(document: object, fields: Fields): Record<string, unknown> {
  const of = document as Readonly<Record<string, unknown>>
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, field]) => {
      const value = of[name]
      return value === undefined || value === null ? [] : [[name, servedValue(value, field)]]
    }),
  )
}

function servedValue(value: unknown, field: Field): unknown {
  if ('each' in field)
    return (value as readonly object[]).map(element => servedObject(element, field.each.fields))
  if ('part' in field) return field.part.freeForm ? value : servedObject(value as object, field.part.fields)
  return field.type === 'date-time' ? servedTime(String(value)) : value
}

function servedTime(text: string): string {
  const isInstant = INSTANT.test(text) && !FIRST_OR_LAST_YEAR.test(text)
  const time = isInstant ? readTime(text, 'UTC') : null
  if (time === null) return text
  const utc = Temporal.Instant.fromEpochNanoseconds(time.micros * 1000n)
  const fraction = time.micros % 1_000_000n === 0n ? 0 : time.micros % 1000n === 0n ? 3 : 6
  return utc.toString({ fractionalSecondDigits: fraction })
}

/** The kinds of events of a notice, as far as the mirror serves it. */
export const KINDS = {
  notice_arrived: 'A notice that was not there before.',
  notice_changed: 'Fields of a notice have other values: `fields`.',
  notice_deleted: 'A notice is gone from the API: 404 from now on.',
  notice_returned: 'A deleted notice is back, perhaps with other values: `fields`.',
  analysis_arrived: 'The first analysis of a notice.',
  analysis_changed: 'Fields of an analysis have other values: `fields`.',
  analysis_outdated:
    'The notice changed after its analysis was read: 503 until one of the other three follows.',
  analysis_current: 'An analysis that was outdated is served again; it was read anew and did not change.',
  verdict_changed: 'The recommendation changed `from` one `to` another; after `analysis_changed`.',
} as const
export type Kind = keyof typeof KINDS

/** A field with another value than before; null if it has none. Without the two if one of them is `omitted`. */
type Change = {
  readonly field: string
  readonly before?: unknown
  readonly after?: unknown
  readonly omitted?: true
}

export type FeedEvent = {
  readonly kind: Kind
  readonly fields?: readonly string[]
  readonly changes?: readonly Change[]
  readonly from?: string | null
  readonly to?: string | null
}

/** The state of a notice that decides what its next line changes. */
export type NoticeState = {
  readonly notice: ServedFields
  /** The time as the API wrote it. */
  readonly updatedAt: string
  /** The segment that brought it. */
  readonly segment: number
  readonly isDeleted: boolean
  readonly analysis: AnalysisState | null
}

type Content = { readonly fields: ServedFields; readonly recommendation: string | null }

type AnalysisState = {
  readonly content: Content
  /** The content that the mirror served last, if that is not `content`; null if it has never served one. */
  readonly served: Content | 'content' | null
  readonly updatedAt: string
  readonly segment: number
}

/** A line of the raw log that is in the warehouse. */
export type LoadedLine = {
  readonly segment: number
  readonly type: string
  readonly updated_at?: string
  readonly fetched_in?: number
  readonly notice?: object
  readonly analysis?: object
}

type Step = { readonly state: NoticeState | null; readonly events: readonly FeedEvent[] }

/** Longer JSON is kept as its hash: it is compared, but not shown. Bounds what 20,000 notices take on the disk. */
const MAX_KEPT_LENGTH = 2048
const HASHED = 'sha256:'

/**
 * Returns what a line about a notice changes, by the same rules as the warehouse (`projection.ts`).
 * @param timeZone of times without an offset.
 */
export function follow(before: NoticeState | null, line: LoadedLine, timeZone: string): Step {
  switch (line.type) {
    case 'notice':
      return readNotice(before, line, timeZone)
    case 'analysis':
      return before ? readAnalysis(before, line, timeZone) : { state: null, events: [] }
    case 'analysis_same':
      return before?.analysis
        ? readSame(before, before.analysis, line, timeZone)
        : { state: before, events: [] }
    case 'gone':
      return before && !before.isDeleted
        ? { state: { ...before, isDeleted: true }, events: [{ kind: 'notice_deleted' }] }
        : { state: before, events: [] }
    default:
      return { state: before, events: [] }
  }
}

function readNotice(before: NoticeState | null, line: LoadedLine, timeZone: string): Step {
  const state: NoticeState = {
    notice: kept(pickNoticeFields(line.notice as object)),
    updatedAt: String(line.updated_at),
    segment: line.fetched_in ?? line.segment,
    isDeleted: false,
    analysis: before?.analysis ?? null,
  }
  if (!before) return { state, events: [{ kind: 'notice_arrived' }] }
  const changes = differences(before.notice, state.notice, timeZone)
  const events: FeedEvent[] = []
  if (before.isDeleted) events.push({ kind: 'notice_returned', ...describe(changes) })
  else if (changes.length > 0) events.push({ kind: 'notice_changed', ...describe(changes) })
  return withAnalysis(before, { state, events }, timeZone)
}

function readAnalysis(before: NoticeState, line: LoadedLine, timeZone: string): Step {
  const document = line.analysis as { verdict?: { recommendation?: string | null } | null }
  const old = before.analysis
  const analysis: AnalysisState = {
    content: {
      fields: kept(pickAnalysisFields(document)),
      recommendation: document.verdict?.recommendation ?? null,
    },
    served: old && servedContent(old),
    updatedAt: String(line.updated_at),
    segment: line.fetched_in ?? line.segment,
  }
  return withAnalysis(before, { state: { ...before, analysis }, events: [] }, timeZone)
}

function readSame(
  before: NoticeState,
  analysis: AnalysisState,
  { updated_at, segment }: LoadedLine,
  timeZone: string,
): Step {
  const state = { ...before, analysis: { ...analysis, updatedAt: String(updated_at), segment } }
  return withAnalysis(before, { state, events: [] }, timeZone)
}

/** Adds the events of the analysis, compared with the one that was last served. */
function withAnalysis(
  before: NoticeState,
  { state, events }: { state: NoticeState; events: readonly FeedEvent[] },
  timeZone: string,
): Step {
  const { analysis } = state
  const [was, is] = [isServed(before, timeZone), isServed(state, timeZone)]
  if (was && !is) return { state, events: [...events, { kind: 'analysis_outdated' }] }
  if (!is || !analysis) return { state, events }
  const after = { ...state, analysis: { ...analysis, served: 'content' as const } }
  const [old, now] = [servedContent(analysis), analysis.content]
  if (old === null) return { state: after, events: [...events, { kind: 'analysis_arrived' }] }
  const changes = differences(old.fields, now.fields, timeZone)
  if (changes.length === 0)
    return { state: after, events: was ? events : [...events, { kind: 'analysis_current' }] }
  const [from, to] = [old.recommendation, now.recommendation]
  const verdict: FeedEvent[] = from === to ? [] : [{ kind: 'verdict_changed', from, to }]
  return { state: after, events: [...events, { kind: 'analysis_changed', ...describe(changes) }, ...verdict] }
}

function servedContent({ served, content }: AnalysisState): Content | null {
  return served === 'content' ? content : served
}

/**
 * Returns whether the mirror serves the analysis (invariant I3): the notice is live, and the analysis was read for its
 * `updated_at`, and not before it.
 */
function isServed({ isDeleted, analysis, updatedAt, segment }: NoticeState, timeZone: string): boolean {
  if (isDeleted || analysis === null || analysis.segment < segment) return false
  return isSameTime(analysis.updatedAt, updatedAt, timeZone)
}

function kept(fields: ServedFields): ServedFields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, json]) => [
      name,
      json.length > MAX_KEPT_LENGTH ? HASHED + hashContent(json) : json,
    ]),
  )
}

function differences(before: ServedFields, after: ServedFields, timeZone: string): Change[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const isSame = (name: string) =>
    before[name] === after[name] ||
    (isTime(name) && isSameTime(readText(before[name]), readText(after[name]), timeZone))
  return [...names].filter(name => !isSame(name)).map(field => makeChange(field, before, after))
}

/** Returns whether a field is a time; an analysis has none of its own. */
function isTime(field: string): boolean {
  return Object.hasOwn(NOTICE, field) && NOTICE[field as keyof typeof NOTICE].type === 'date-time'
}

function readText(json: string | undefined): string {
  return String(json === undefined ? '' : JSON.parse(json))
}

function makeChange(field: string, before: ServedFields, after: ServedFields): Change {
  const texts = [before[field], after[field]]
  if (texts.some(text => text?.startsWith(HASHED))) return { field, omitted: true }
  const [old, now] = texts.map(text => (text === undefined ? null : JSON.parse(text)))
  return { field, before: old, after: now }
}

function describe(changes: readonly Change[]): Pick<FeedEvent, 'fields' | 'changes'> {
  return { fields: changes.map(({ field }) => field), changes }
}
