import { LIST_LIMIT } from '#schema/notice.ts'
import type { Api } from '#src/core/api/client.ts'
import type { Drift } from '#src/core/rawlog/line.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import { pluralize } from '#src/lib/count.ts'
import { FatalError, RequestError, throwIfInterrupted } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import { isRejected, makeShownPage, pageHash, type ShownPage } from './list_index.ts'
import type { ListedFile } from './listed.ts'
import { type Verdict, validateNotice, validatePage } from './validate.ts'

/** An incomplete pass is repeated once; the next run comes soon. */
const MAX_PASSES = 2
/** Pages read at once: enough to hide latency, few enough that a pass reflects nearly one moment. */
const PAGES_AT_ONCE = 4
/** A server that returns fewer notices than requested must not make a pass endless. */
const MAX_PAGES_FACTOR = 4
const MAX_PAGES_SLACK = 50
/** Two pages of at least this size are equal only if `offset` is ignored; shorter ones can be equal after shifts. */
const MIN_REPEATED = 20

export type Scan = {
  readonly passes: number
  /** Whether a pass was verified as complete (docs/internals/scan.md#the-scan); null without a pass. */
  readonly complete: boolean | null
  /** Notices requested by id that do not exist for this company. */
  readonly absent: readonly string[]
  /** Notices requested by id that got no usable answer. */
  readonly failed: readonly { id: string; reason: string }[]
  /** The largest `total` that a page of the last pass reported. */
  readonly total: number
  readonly drift: readonly Drift[]
  /** The pages, if a single pass was whole; otherwise null: the list changed while it was read. */
  readonly pages: readonly ShownPage[] | null
}

/** Reads the body of a page; a text is the reason, as the end of a sentence, why it cannot be read. */
export type ReadPage = (body: Buffer) => Promise<ShownPage | string>

type ScanOptions = {
  readonly api: Pick<Api, 'list' | 'concurrency'>
  readonly statuses: readonly string[] | null
  readonly readPage: ReadPage
  readonly maxPasses?: number
  readonly signal: AbortSignal
  readonly onProgress: (progress: { done: number; total: number }) => void
}

/**
 * Reads the whole list, assuming no order, and passes every page to `readPage`. Neighbouring pages overlap by
 * one notice: this is the only way to detect a notice that slipped between two pages while the list changed.
 * @throws FatalError if the list cannot be read or the server ignores `offset`; the errors of `readPage`.
 */
export async function scan(options: ScanOptions): Promise<Scan> {
  const { maxPasses = MAX_PASSES } = options
  const drift: Drift[] = []
  for (let passes = 1; ; passes += 1) {
    const pass = await readPass(options)
    if (passes === 1) drift.push(...pass.drift)
    if (pass.whole || passes === maxPasses) {
      return {
        passes,
        complete: pass.whole,
        total: pass.total,
        absent: [],
        failed: [],
        drift,
        pages: pass.whole && passes === 1 ? pass.pages : null,
      }
    }
  }
}

/** Validates the notices of each page and adds them to `listed`: only the keys of those that are as the last run saw them. */
export function readInto(listed: ListedFile): ReadPage {
  const { before } = listed
  return async body => {
    const hash = pageHash(body)
    const same = before?.samePage(hash)
    if (same !== undefined && !same.notices.some(isRejected)) {
      await listed.add(same.notices.map(([key]) => key))
      return same
    }
    const page = validatePage(body)
    if (typeof page === 'string') return page
    const shown = makeShownPage(hash, page)
    await listed.add(
      shown.notices.map((notice, index) =>
        before?.has(notice) && !isRejected(notice) ? notice[0] : (page.notices[index] as Verdict),
      ),
    )
    return shown
  }
}

type PageEdges = {
  readonly offset: number
  readonly end: number
  readonly first: string
  readonly last: string
}

type Pass = {
  readonly edges: PageEdges[]
  readonly totals: Set<number>
  readonly shown: Set<string>
  /** Hash of the ids of each page, to detect a server that repeats pages. */
  readonly contents: Map<string, number>
  readonly pages: ShownPage[]
  readonly drift: Drift[]
}

type PassRead = Pick<Pass, 'pages' | 'drift'> & { readonly whole: boolean; readonly total: number }

async function readPass(options: ScanOptions): Promise<PassRead> {
  const pass: Pass = {
    edges: [],
    totals: new Set(),
    shown: new Set(),
    contents: new Map(),
    pages: [],
    drift: [],
  }
  const first = await readPage(options, pass, 0)
  pass.drift.push(...first.drift)
  const size = first.notices.length
  const maxPages = MAX_PAGES_SLACK + (MAX_PAGES_FACTOR * first.total) / Math.max(1, size - 1)
  // Ranges of the list not yet read. If a page ends early, its remainder goes back in.
  let ranges = planRanges(size, first.total)

  async function work(stopped: () => boolean): Promise<void> {
    for (let range = ranges.shift(); range && !stopped(); range = ranges.shift()) {
      if (pass.pages.length > maxPages) throw endless(pass.pages.length)
      const page = await readPage(options, pass, range.from)
      const end = range.from + page.notices.length
      const goal = Math.min(range.to, page.total)
      // The list ends here, whatever its `total` is.
      if (page.notices.length === 0) ranges = ranges.filter(({ from }) => from < range.from)
      if (page.notices.length > 0 && end < goal) ranges.push({ from: nextOffset(range.from, end), to: goal })
    }
  }
  const workers = Math.max(1, Math.min(PAGES_AT_ONCE, options.api.concurrency, ranges.length))
  await runConcurrently(workers, work)
  const { pages, drift } = pass
  return { whole: isWhole(pass), pages, drift, total: Math.max(...pass.totals) }
}

/** Pages after the first. Each starts with the last notice of the previous page, if pages hold several notices. */
function planRanges(size: number, total: number): { from: number; to: number }[] {
  const overlap = size > 1 ? 1 : 0
  const ranges: { from: number; to: number }[] = []
  if (size === 0) return ranges
  for (let from = size - overlap; from + overlap < total; from += size - overlap) {
    ranges.push({ from, to: from + size })
  }
  return ranges
}

/** Overlaps the previous page, unless the server returns one notice per page, where no overlap is possible. */
function nextOffset(from: number, end: number): number {
  return end - 1 > from ? end - 1 : end
}

async function readPage(options: ScanOptions, pass: Pass, offset: number): Promise<ShownPage> {
  throwIfInterrupted(options.signal)
  const body = await options.api.list({ statuses: options.statuses, limit: LIST_LIMIT.max, offset })
  const page = await options.readPage(body)
  if (typeof page === 'string') {
    throw new FatalError(
      `The list page at offset ${offset} cannot be read: ${page}. Check API_BASE_URL; if it is correct, the API is at fault.`,
    )
  }
  pass.pages.push(page)
  note(pass, page, offset)
  options.onProgress({ done: pass.shown.size, total: page.total })
  return page
}

function note(pass: Pass, page: ShownPage, asked: number): void {
  const keys = page.notices.map(([key]) => key)
  if (keys.length >= MIN_REPEATED) {
    const content = hashContent(keys.join('\n'))
    const before = pass.contents.get(content)
    if (before !== undefined && before !== asked) {
      throw new FatalError(
        `The API ignores offset: the pages at ${before} and ${asked} show the same notices. The whole list cannot be read, so nothing was changed.`,
      )
    }
    pass.contents.set(content, asked)
  }
  pass.totals.add(page.total)
  for (const key of keys) pass.shown.add(key)
  const [first, last] = [keys[0], keys.at(-1)]
  if (first !== undefined && last !== undefined) {
    pass.edges.push({ offset: page.offset, end: page.offset + keys.length, first, last })
  }
}

/**
 * Returns whether a pass is whole: `total` is constant and equals the number of notices, and each page starts with the previous
 * page's last notice.
 */
function isWhole({ edges, totals, shown }: Pass): boolean {
  const [total] = totals
  if (totals.size !== 1 || total !== shown.size) return false
  const sorted = [...edges].sort((a, b) => a.offset - b.offset || a.end - b.end)
  return sorted.every((page, index) => {
    const previous = sorted[index - 1]
    return previous === undefined
      ? page.offset === 0
      : page.offset === previous.end - 1 && page.first === previous.last
  })
}

function endless(pages: number): FatalError {
  return new FatalError(
    `The list did not end after ${pluralize(pages, 'page')}. The API is at fault; nothing was changed.`,
  )
}

/** Reads single notices as if the list had shown them; `absent` has those answered with 404. */
export async function readByIds(options: {
  api: Pick<Api, 'notice'>
  ids: readonly string[]
  listed: ListedFile
  signal: AbortSignal
  onProgress: (progress: { done: number; total: number }) => void
}): Promise<Scan> {
  const absent: string[] = []
  const failed: { id: string; reason: string }[] = []
  for (const [done, id] of options.ids.entries()) {
    throwIfInterrupted(options.signal)
    try {
      const answer = await options.api.notice(id)
      if (answer.kind === 'absent') absent.push(id)
      else if (answer.kind === 'body') await options.listed.add([validateNotice(answer.bytes, id)])
      else failed.push({ id, reason: 'its answer is too large' })
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      failed.push({ id, reason: error.message })
    }
    options.onProgress({ done: done + 1, total: options.ids.length })
  }
  return { passes: 0, complete: null, total: 0, absent, failed, drift: [], pages: null }
}
