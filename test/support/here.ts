import { randomBytes } from 'node:crypto'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { chooseExitCode, type RunReport } from '#src/core/company/run_report.ts'
import { workUntimed } from '#src/core/pipeline/request.ts'
import { NEXT, type RunResult } from '#src/core/pipeline/run.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { getHosts } from '#src/extras.ts'
import { loadMarts } from '#src/marts/open.ts'
import { combineFollowers, publishBehind } from '#src/operate/extras.ts'
import { holdCompany } from '#src/operate/open.ts'
import { type SyncRequest, sync } from '#src/sync.ts'
import type { Environment } from './project.ts'

/** One run as the command does it, in this process: for tests of many runs, where starting processes takes longest. */
export async function syncHere(
  environment: Environment,
  request: Partial<SyncRequest> = {},
  given: Partial<Pick<CompanyContext, 'now' | 'pace'>> = {},
): Promise<RunResult> {
  const context = { ...contextHere(environment), ...given }
  const { signal } = context
  const api = createApiClient({ ...readApiSettings(environment), retryMs: 10, signal, nowMs: Date.now })
  try {
    const run = () => sync({ ...NEXT, ...request }, { ...context, api })
    return await (context.sharedLog ? holdCompany(context, SILENT, { what: 'sync' }, run) : run())
  } finally {
    await api.close()
    // A refusal of the object store is remembered.
    await publishBehind(context, SILENT, { what: 'sync' }).catch(() => {})
  }
}

const SILENT = { progress() {}, note() {} }

/**
 * Returns the report of one run in this process.
 * @throws Error with the report unless the command would end with `code`.
 */
export async function reportHere(
  environment: Environment,
  request: Partial<SyncRequest> = {},
  code = 0,
): Promise<RunReport> {
  const { report, causes } = await syncHere(environment, request)
  const ended = chooseExitCode(report, causes)
  if (ended !== code) throw new Error(`sync would exit with ${ended}, not ${code}: ${JSON.stringify(report)}`)
  return report
}

/** The context of a run, without the API. */
export function contextHere(environment: Environment): CompanyContext {
  const settings = readSettings(environment)
  const paths = companyPaths(settings.dataDir, settings.company)
  const { signal } = new AbortController()
  const sharedLog = settings.remoteLog && getHosts().open(settings.remoteLog, paths, signal)
  return quietContext({ paths, settings, signal, sharedLog, newId, now: () => new Date() })
}

/** Makes the context of a run that reports to nobody. */
export function quietContext(
  given: Pick<CompanyContext, 'paths' | 'settings' | 'signal' | 'sharedLog' | 'newId' | 'now' | 'pace'>,
): CompanyContext {
  const follower = combineFollowers(given.settings, given.paths)
  return {
    ...given,
    follower,
    loadMarts,
    runId: given.newId(),
    onProgress() {},
    inStage: workUntimed,
    onNote() {},
  }
}

function newId(): string {
  return `${Date.now()}-${randomBytes(4).toString('hex')}`
}
