import { FatalError } from '#src/lib/errors.ts'
import type { Ended, RunOrder } from './child.ts'
import type { CompanyRegistry } from './company_registry.ts'
import { inProcess } from './process.ts'

/** A process that takes longer to read a snapshot counts as hung. */
const ANSWER_WITHIN_MS = 30_000

type Asked = { readonly registry: Pick<CompanyRegistry, 'companies'> }

/** Returns what `status --json` prints. */
export async function statusOf(slug: string, asked: Asked, signal: AbortSignal): Promise<string> {
  const ended = await askProcess(slug, { kind: 'status' }, asked, signal)
  if (ended.kind === 'status') return JSON.stringify(ended.status)
  throw new FatalError(ended.kind === 'failed' ? ended.message : `The status of ${slug} cannot be read.`)
}

/** Returns the report of the latest snapshot, as HTML. */
export async function answerReport(slug: string, asked: Asked, signal: AbortSignal): Promise<string> {
  const ended = await askProcess(slug, { kind: 'report' }, asked, signal)
  if (ended.kind === 'report') return ended.html
  throw new FatalError(ended.kind === 'failed' ? ended.message : `The report of ${slug} cannot be created.`)
}

/** Runs the order in its own process: reading a snapshot loads DuckDB, which keeps its memory. */
async function askProcess(
  slug: string,
  order: RunOrder,
  { registry }: Asked,
  signal: AbortSignal,
): Promise<Ended> {
  const company = registry.companies.get(slug)
  if (!company) throw new FatalError(`${slug} is not configured.`)
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)])
  return await inProcess({ company, order, signal: bounded })
}
