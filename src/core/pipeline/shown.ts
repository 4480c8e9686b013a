import { hash } from 'node:crypto'
import { NOTICE } from '#schema/notice.ts'
import type { Drift } from '#src/core/rawlog/line.ts'
import { hashOf } from '#src/lib/hash.ts'
import type { Page, Verdict } from './validate.ts'

/** Half of a SHA-256: enough against a text that was made to collide, and half the index. */
const FINGERPRINT_CHARACTERS = 22

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

export function shownPage(body: Buffer, { total, offset, drift, notices }: Page): ShownPage {
  return { hash: pageHash(body), total, offset, drift, notices: notices.map(shownNotice) }
}

export function pageHash(body: Buffer): string {
  return hash('sha256', body, 'base64url')
}

function shownNotice(verdict: Verdict): ShownNotice {
  if (!verdict.ok) {
    const rejected = hashOf(verdict.raw)
    return [verdict.editalId ?? rejected, fingerprint(`rejected ${rejected}`)]
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
