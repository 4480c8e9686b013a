import zlib from 'node:zlib'
import { analysis, notice } from '#schema/zod.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { sum } from '../frame/figures.ts'
import { createCompany, type GeneratedCompany } from './company.ts'
import type { Texts } from './text.ts'

/** This many documents are checked against the contract's schema; more would only take time. */
const CHECKED_DOCUMENTS = 50
/** About as many as one block of the raw log holds. */
const COMPRESSED_DOCUMENTS = 110
/** Changes affect only notices created in this many newest months. */
const CHANGED_WITHIN_MONTHS = 2

/** Properties of the company; sizes in bytes of JSON. */
export type About = {
  readonly notices: number
  readonly averageBytes: number
  readonly largestBytes: number
  /** Rows of the tables that have one row per element of an analysis. */
  readonly averageChildren: number
  /** How much zstd at level 1 shrinks the analyses. */
  readonly compression: number
}

/** Everything that a company's key gives access to, as JSON; one index is one notice. */
export type World = {
  readonly indexOf: (id: string) => number | undefined
  readonly lists: readonly Buffer[]
  readonly analyses: readonly Buffer[]
  readonly about: About
  /** Changes this share of all notices, taken from the newest months; returns their number. */
  change(share: number): number
}

/** Throws ZodError if a document violates the contract. */
export function createWorld(notices: number, seed: string, texts?: Texts): World {
  const company = createCompany(notices, seed, texts)
  const ids = new Map(company.subjects.map(({ id }, index) => [id, index]))
  const versions = new Uint32Array(notices)
  const lists: Buffer[] = []
  const analyses: Buffer[] = []

  /** @returns the number of its child rows. */
  function write(index: number): number {
    const version = versions[index] as number
    const subject = company.subjects[index] as GeneratedCompany['subjects'][number]
    const made = company.analysis(index, version)
    const updatedAt = new Date(subject.createdAt.getTime() + (version + 1) * 3_600_000)
    lists[index] = Buffer.from(company.notice(index, updatedAt))
    analyses[index] = Buffer.from(made.json)
    return made.children
  }

  const children = sum(company.subjects.map((_, index) => write(index)))
  checkSample(lists, analyses)
  return {
    indexOf: id => ids.get(id),
    lists,
    analyses,
    about: describe(analyses, children),
    change(share) {
      const chosen = createRandom(`${seed}:change`).sample(
        recent(company),
        Math.max(1, Math.round(notices * share)),
      )
      for (const index of chosen) {
        versions[index] = (versions[index] as number) + 1
        write(index)
      }
      return chosen.length
    },
  }
}

function describe(analyses: readonly Buffer[], children: number): About {
  const notices = analyses.length
  const sizes = analyses.map(body => body.length)
  const some = Buffer.concat(analyses.slice(0, COMPRESSED_DOCUMENTS))
  const level = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }
  return {
    notices,
    averageBytes: Math.round(sum(sizes) / notices),
    largestBytes: sizes.reduce((largest, bytes) => Math.max(largest, bytes), 0),
    averageChildren: children / notices,
    compression: some.length / zlib.zstdCompressSync(some, level).length,
  }
}

/** The measured documents must follow the contract. */
function checkSample(lists: readonly Buffer[], analyses: readonly Buffer[]): void {
  for (const body of lists.slice(0, CHECKED_DOCUMENTS)) notice.parse(JSON.parse(String(body)))
  for (const body of analyses.slice(0, CHECKED_DOCUMENTS)) analysis.parse(JSON.parse(String(body)))
}

/** Indexes of the notices of the newest months. */
function recent({ subjects }: GeneratedCompany): number[] {
  const newest = subjects[0]?.createdAt ?? new Date()
  const since = Date.UTC(newest.getUTCFullYear(), newest.getUTCMonth() - CHANGED_WITHIN_MONTHS + 1)
  return subjects.flatMap(({ createdAt }, index) => (createdAt.getTime() >= since ? index : []))
}
