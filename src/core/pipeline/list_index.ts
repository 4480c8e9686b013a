import { hash } from 'node:crypto'
import { createReadStream, readFileSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Settings } from '#config/settings.ts'
import { NOTICE } from '#schema/notice.ts'
import { isGoodRun } from '#schema/sync_runs.ts'
import { TABLES } from '#schema/tables.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { readFailure } from '#src/core/company/run_report.ts'
import { type KnownState, readState } from '#src/core/company/state.ts'
import { latestLink, readLatestName } from '#src/core/lake/manifest.ts'
import { segmentPath } from '#src/core/rawlog/files.ts'
import type { Drift } from '#src/core/rawlog/line.ts'
import { move, writeNew } from '#src/lib/durable.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { Page, Verdict } from './validate.ts'

/**
 * The list as the last run saw it. It exists only if a run that sees the same list again, before `due_at`, would find nothing to
 * do: then a look at the list can replace that run (docs/decisions/021-looks.md). Any other run reads only what differs from it.
 */
export type ListIndex = {
  readonly run_id: string
  /** The log's name, as in the warehouse. */
  readonly log: string | null
  /** The end of the last run that opened the warehouse: it left the index. */
  readonly made_at: string
  /** When all notices were last read and compared with what is stored, whatever an index said. */
  readonly compared_at: string
  /** When the data need a run even if the list stays the same; null for never. */
  readonly due_at: string | null
  /** The program and the settings that it was made with, as a hash. */
  readonly basis: string
  readonly place: Place
  /** How many notices are listed, and how many of them wait or are excluded. */
  readonly listed: number
  readonly deferred: number
  readonly pages: readonly ShownPage[]
}

/** Half of a SHA-256: enough against a text that was made to collide, and half the index. */
const FINGERPRINT_CHARACTERS = 22

/** A list that one pass showed as a whole. */
export type ShownList = Pick<ListIndex, 'pages' | 'compared_at'>

/** The content of a page of the list, in short. */
export type ShownPage = {
  /** Hash of its bytes. */
  readonly hash: string
  readonly total: number
  readonly offset: number
  /** The differences of its envelope from the contract. */
  readonly drift: readonly Drift[]
  readonly notices: readonly ShownNotice[]
}

/** The id, or the hash of a record without one, and a fingerprint of all that detection compares. */
export type ShownNotice = readonly [key: string, fingerprint: string]

/** Begins the fingerprint of a record that cannot be used. */
const REJECTED = '!'

export function isRejected([, fingerprint]: ShownNotice): boolean {
  return fingerprint.startsWith(REJECTED)
}

/** @param hash of the page's bytes. */
export function makeShownPage(hash: string, { total, offset, drift, notices }: Page): ShownPage {
  return { hash, total, offset, drift, notices: notices.map(shownNotice) }
}

export function pageHash(body: Buffer): string {
  return hash('sha256', body, 'base64url')
}

function shownNotice(verdict: Verdict): ShownNotice {
  if (!verdict.ok) {
    const rejected = hashContent(verdict.raw)
    return [verdict.editalId ?? rejected, REJECTED + fingerprint(rejected)]
  }
  const { editalId, compared, drift } = verdict
  return [editalId, fingerprint(drift.length > 0 ? withoutUnknown(compared) : compared)]
}

function fingerprint(text: string): string {
  return hash('sha256', text, 'base64url').slice(0, FINGERPRINT_CHARACTERS)
}

/** Removes unknown properties: they are no change (decision 6), and may differ in every answer. */
function withoutUnknown(document: string): string {
  const fields = Object.entries(JSON.parse(document) as Record<string, unknown>)
  return JSON.stringify(Object.fromEntries(fields.filter(([name]) => Object.hasOwn(NOTICE, name))))
}

/** The positions of log, warehouse and lake at the end of the run. A change of any of them makes the index outdated. */
type Place = {
  readonly root: string
  /** Sealed segments of the raw log: each run adds at least one before it changes anything else. */
  readonly segments: number
  /** Size and time of the warehouse's file. */
  readonly warehouse: string
  /** The directory with its rows, named after it: without that, a run rebuilds the warehouse. */
  readonly rows: readonly string[]
  /** Name of the latest snapshot, and size and time of its manifest: without that, a run publishes it again. */
  readonly snapshot: readonly [name: string | null, manifest: string | null]
}

type Basis = { readonly paths: CompanyPaths; readonly settings: Settings }

/** Writes the index atomically. Its first line is a checksum: after a power failure the rest may be incomplete. */
export async function writeListIndex(
  { paths, settings }: Basis,
  index: Omit<ListIndex, 'basis' | 'place'>,
  segments: number,
): Promise<void> {
  const place = await readPlace(paths, segments)
  if (place === null) return
  const text = JSON.stringify({ ...index, basis: describeBasis(settings), place })
  await writeNew(`${paths.listIndex}.part`, `${hashContent(text)}\n${text}\n`)
  await move('index.rename', `${paths.listIndex}.part`, paths.listIndex)
}

/** Looks up what the last run saw in the list. */
export class KnownList {
  readonly pages: readonly ShownPage[]
  /** When all that is listed was last compared with what is stored. */
  readonly comparedAt: string
  readonly #byHash: ReadonlyMap<string, ShownPage>
  #notices: ReadonlyMap<string, string> | undefined

  constructor({ pages, compared_at }: ShownList) {
    this.pages = pages
    this.comparedAt = compared_at
    this.#byHash = new Map(pages.map(page => [page.hash, page]))
  }

  /** Returns the fingerprints of all notices by key. They are collected when a page with other bytes is read: usually none is. */
  get notices(): ReadonlyMap<string, string> {
    this.#notices ??= new Map(this.pages.flatMap(({ notices }) => notices))
    return this.#notices
  }

  /** Returns the page with exactly these bytes: it need not be parsed again, nor compared. */
  samePage(hash: string): ShownPage | undefined {
    return this.#byHash.get(hash)
  }

  /** Returns whether the last run saw the notice as it is now. */
  has([key, fingerprint]: ShownNotice): boolean {
    return this.notices.get(key) === fingerprint
  }
}

/** An index that nothing has run or changed since, with the state of its run, and the checksum of its file. */
export type UsableIndex = { readonly index: ListIndex; readonly state: KnownState; readonly sum: string }

/**
 * Returns the index that the last run left, and its state, if nothing has run or changed since; otherwise the reason. Whether
 * something stored is due is for `explainDue`.
 */
export async function findUsableIndex({ paths, settings }: Basis, now: Date): Promise<UsableIndex | string> {
  const read = await readListIndex(paths)
  if (read === null) return 'the last run left work to do'
  const { index, sum } = read
  const outdated = await explainOutdated(index, { paths, settings }, now)
  if (outdated !== null) return outdated
  const state = await readState(paths)
  if (state?.last_run.run_id !== index.run_id || !isGoodRun(state.last_run))
    return 'the state belongs to another run'
  if ((await readFailure(paths)) !== null) return 'the last run left no report'
  return { index, state, sum }
}

/** Returns the index and the checksum at the start of its file; null if the file is missing or damaged. */
export async function readListIndex(paths: CompanyPaths): Promise<Pick<UsableIndex, 'index' | 'sum'> | null> {
  const [sum = '', content = ''] = (await readFile(paths.listIndex, 'utf8').catch(() => '')).split('\n')
  return sum === hashContent(content) ? { index: JSON.parse(content) as ListIndex, sum } : null
}

/** Returns whether the index on the disk is the one with this checksum: each run leaves another one. */
export async function isStillThere({ listIndex }: CompanyPaths, sum: string): Promise<boolean> {
  const chunks = createReadStream(listIndex, { end: sum.length - 1, encoding: 'latin1' })
  return (await text(chunks).catch(() => '')) === sum
}

/** Returns what has changed since the index was made; null if nothing has. Reads names, sizes and times of files only. */
export async function explainOutdated(
  { basis, place, made_at }: ListIndex,
  { paths, settings }: Basis,
  now: Date,
): Promise<string | null> {
  if (basis !== describeBasis(settings)) return 'the program or its settings changed'
  const present = await readPlace(paths, place.segments)
  if (JSON.stringify(place) !== JSON.stringify(present)) return 'the data changed since the last run'
  if (now.getTime() < Date.parse(made_at)) return 'the clock was set back'
  return null
}

/** Returns why a run would have something to do even if the list is the same; null if it would not. */
export function explainDue({ due_at }: ListIndex, now: Date): string | null {
  return due_at !== null && now.getTime() >= Date.parse(due_at) ? 'a stored record or analysis is due' : null
}

/** Returns null if the log does not end with this segment. */
async function readPlace(paths: CompanyPaths, segments: number): Promise<Place | null> {
  const { root, raw, lake } = paths
  const [last, next, warehouse, rows, ...snapshot] = await Promise.all([
    identifyFile(segmentPath(raw, segments)),
    identifyFile(segmentPath(raw, segments + 1)),
    identifyFile(paths.warehouse),
    readdir(paths.rows).catch((): string[] => []),
    readLatestName(lake),
    identifyFile(join(latestLink(lake), 'manifest.json')),
  ])
  if (last === null || next !== null || warehouse === null) return null
  return { root, segments, warehouse, rows: rows.sort(), snapshot }
}

async function identifyFile(path: string): Promise<string | null> {
  return await stat(path).then(
    ({ size, mtimeMs }) => `${size} ${mtimeMs}`,
    () => null,
  )
}

/** Omits the setting that affects no data. */
function describeBasis({ logLevel: _, ...settings }: Settings): string {
  return hashContent(JSON.stringify([programHash(), settings]))
}

/** Of the index; before 2, it did not show which records cannot be used. */
const FORMAT = 2

let program: string | null = null

/** Changes with the program's version, its dependencies and its tables: then the next run may rebuild the warehouse. */
function programHash(): string {
  program ??= hashContent(
    JSON.stringify([
      FORMAT,
      readFileSync(join(import.meta.dirname, '../../../package.json'), 'utf8'),
      process.version,
      TABLES,
    ]),
  )
  return program
}
