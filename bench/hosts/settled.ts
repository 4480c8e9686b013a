import { setTimeout as sleep } from 'node:timers/promises'
import type { ChangingCompany } from './companies.ts'
import type { Fleet } from './fleet.ts'

/** Until every company had a run that began now or later, and left nothing to do. */
export async function untilSettled({ hosts }: Fleet, companies: readonly ChangingCompany[]): Promise<void> {
  const [first] = hosts
  if (!first) return
  // It may have been replaced just now.
  while (!(await fetch(`${first.worker.url}/readyz`)).ok) await sleep(500)
  const sinceMs = Date.now()
  for (const { slug } of companies) await first.worker.requestSync(slug)
  const isSettled = ({ slug }: ChangingCompany) =>
    hosts.some(({ worker }) =>
      worker.runs.some(
        ({ company, status, started_at }) =>
          company === slug && status === 'ok' && Date.parse(started_at) >= sinceMs,
      ),
    )
  while (!companies.every(isSettled)) await Promise.race(hosts.map(({ worker }) => worker.next()))
}
