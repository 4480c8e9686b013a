import type { Logger } from 'pino'
import type { CompanyRegistry } from './company_registry.ts'
import type { Surroundings } from './scheduler.ts'

/** Follows the companies' file, even while Redis is away, so that status, readiness and alerts match it. */
export function followFile({ registry, log }: Pick<Surroundings, 'registry' | 'log'>): () => Promise<void> {
  const logNew = logProblems(log)
  return async () => {
    await registry.refresh()
    logNew(registry)
  }
}

/** Logs each problem of the companies' file once while it lasts. */
function logProblems(log: Logger): (registry: Pick<CompanyRegistry, 'problem' | 'broken'>) => void {
  let logged = new Set<string>()
  return ({ problem, broken }) => {
    const now = new Set<string>()
    if (problem !== null) {
      now.add(problem)
      if (!logged.has(problem)) log.error(problem)
    }
    for (const [company, why] of broken) {
      now.add(why)
      if (!logged.has(why)) log.error({ company }, why)
    }
    logged = now
  }
}
