import { readSettings } from '#config/settings.ts'
import type { Company } from '#jobs/queues/company_registry.ts'
import { forgetLaterRuns, isLastRunElsewhere, readKnownState, shareState } from '#jobs/queues/known_state.ts'
import { LogPosition } from '#src/core/company/state.ts'
import { requireLatest } from '#src/core/lake/manifest.ts'
import { assertHolds } from '../assertions.ts'
import { inNoTime } from '../remote/store.ts'
import type { Host, HostsPlay } from './play.ts'

/** What hosts leave in Redis for each other. */

const PREFIX = 'simulated'

/** After a run, as a worker does. */
export async function share({ redis }: HostsPlay, host: Host): Promise<void> {
  await shareState({ redis: redis.client, prefix: PREFIX }, companyOn(host))
}

/** As the command that restores a log does. */
export async function forgetLater({ redis }: HostsPlay, { paths }: Host, segments: number): Promise<void> {
  const { log } = await requireLatest(paths.lake)
  await forgetLaterRuns({ redis: redis.client, prefix: PREFIX }, 'acme', LogPosition.of(log, segments))
}

/** I16: these hosts know the last run, and whether it was on another host. */
export async function checkKnown(
  { redis }: HostsPlay,
  last: Host,
  runId: string,
  hosts: readonly Host[],
): Promise<void> {
  const shared = { redis: redis.client, prefix: PREFIX }
  for (const host of hosts) {
    const known = (await readKnownState(shared, companyOn(host))).state?.last_run.run_id
    assertHolds(
      known === runId,
      () => `I16: ${host.name} believes that ${known} was the last run, not ${runId}`,
    )
    const isElsewhere = await isLastRunElsewhere(shared, companyOn(host))
    assertHolds(
      isElsewhere === (host !== last),
      () => `I16: ${host.name} believes that the last run was ${isElsewhere ? 'elsewhere' : 'here'}`,
    )
  }
}

/** It needs no more of a company. */
function companyOn({ environment, paths }: Host): Company {
  return { slug: 'acme', settings: inNoTime(readSettings(environment)), paths } as Company
}
