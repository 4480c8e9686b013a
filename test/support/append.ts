import { join } from 'node:path'
import { sealedSegments } from '#src/core/rawlog/files.ts'
import type { Line, LoggedDocument } from '#src/core/rawlog/line.ts'
import { RawLogWriter } from '#src/core/rawlog/writer.ts'
import { companyDirectory, type Environment } from './project.ts'
import type { SyncedCompany } from './synced.ts'

type Appended = readonly [Line, LoggedDocument]

/** Writes the next segment of the raw log, like a run that died before it loaded it. */
export async function appendSegment(environment: Environment, lines: readonly Appended[]): Promise<void> {
  const directory = join(companyDirectory(environment), 'raw')
  const firstNumber = (await sealedSegments(directory)).length + 1
  const log = new RawLogWriter({ directory, firstNumber, runId: 'by-hand', now: () => new Date() })
  await log.append({
    type: 'run_started',
    mode: 'incremental',
    analysis_statuses: ['screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired'],
    company: 'acme',
  })
  for (const [line, document] of lines) await log.append(line, document)
  await log.seal()
  await log.close()
}

export function noticeLine({ world }: Pick<SyncedCompany, 'world'>, id: string): Appended {
  const edital = world.entry(id)?.edital
  return [
    { type: 'notice', edital_id: id, updated_at: String(edital?.updated_at) },
    { notice: JSON.stringify(edital) },
  ]
}

export function analysisLine({ world }: Pick<SyncedCompany, 'world'>, id: string, patch: object): Appended {
  const { edital, analysis } = world.entry(id) ?? {}
  const updated_at = String(edital?.updated_at)
  return [
    { type: 'analysis', edital_id: id, updated_at, source_updated_at: updated_at, hash: `of ${id}` },
    { analysis: JSON.stringify({ ...analysis, ...patch }) },
  ]
}
