import { type Job, Worker } from 'bullmq'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readDaemonSettings } from '#config/daemon.ts'
import { enqueue } from '#jobs/enqueue.ts'
import type { JobNews } from '#jobs/processors.ts'
import { openQueues, type Queues } from '#jobs/queues/queue.ts'
import { openRequests } from '#jobs/queues/requests.ts'
import { createLogger } from '#src/lib/log.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { startAcme } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import type { Environment } from '#test/support/project.ts'

vi.setConfig(DAEMON_TEST)

const silent = createLogger('silent', {})
/** How many workers may die in the middle of a job. */
const MAX_DEATHS = 5

/** Starts `sync --enqueue`; returns its notes, and why it ended. */
function startEnqueue(environment: Environment, waitSeconds: number | null) {
  const notes: string[] = []
  const { redis } = readDaemonSettings(environment)
  const leaving = new AbortController()
  const ended = enqueue({
    redis,
    company: 'acme',
    full: false,
    restart: false,
    waitSeconds,
    log: silent,
    listener: { note: text => void notes.push(text), progress: () => {} },
    signal: leaving.signal,
  }).then(
    () => 'as a run did',
    (error: Error) => error.message,
  )
  onTestFinished(async () => {
    leaving.abort()
    await ended
  })
  return { notes, ended }
}

/** Takes the run of a request as a worker does, as far as Redis shows. */
async function takeRun(environment: Environment): Promise<{ queues: Queues; job: Job }> {
  const { redis: place } = readDaemonSettings(environment)
  const queues = openQueues(place, silent)
  onTestFinished(() => queues.close())
  const worker = new Worker('runs', null, {
    connection: queues.redis,
    prefix: queues.prefix,
    skipVersionCheck: true,
  })
  onTestFinished(() => worker.close(true))
  const job = await until(() => worker.getNextJob('token', { block: false }), { what: 'a run' })
  const { covers } = await openRequests(queues.redis, queues.prefix, () => new Date()).take('acme')
  await job.updateProgress({ covers, progress: null } satisfies JobNews)
  return { queues, job }
}

async function loseLock({ queues, job }: { queues: Queues; job: Job }): Promise<void> {
  await queues.redis.del(queues.runs.toKey(`${job.id}:lock`))
}

test('sync --enqueue ends with the reason if too many workers die during its run', async () => {
  const { environment } = await startAcme(notices(1, 3), { JOB_LOCK_MS: '1000' })
  const request = startEnqueue(environment, null)
  const { queues, job } = await takeRun(environment)
  await queues.redis.hset(queues.runs.toKey(job.id ?? ''), 'stc', MAX_DEATHS)
  await loseLock({ queues, job })
  const worker = await startDaemon(environment)
  expect(await request.ended).toMatch(/^5 workers died during this run, or did not respond for JOB_LOCK_MS\./)
  const about = worker.lines.filter(line => line.company === 'acme' && line.job === job.id)
  expect(about).toMatchObject([{ level: 'error', msg: expect.stringMatching(/^5 workers died/) }])
  expect(JSON.stringify(worker.lines)).not.toContain('bug in editais-sync')
})

test("sync --enqueue reports that its run's worker went silent, and waits for another run to start", async () => {
  const { environment } = await startAcme(notices(1, 3))
  const request = startEnqueue(environment, 4)
  const run = await takeRun(environment)
  await until(() => request.notes.includes(`The daemon runs it as job ${run.job.id}`), { what: 'its run' })
  await loseLock(run)
  expect(await request.ended).toBe(
    'No run of acme began within 4 s. The daemon keeps the request; see its log.',
  )
  expect(request.notes.at(-1)).toBe(
    'The worker of the run stopped responding; waiting for another one to take it',
  )
})

test('… even if the job of its run is gone', async () => {
  const { environment } = await startAcme(notices(1, 3))
  const request = startEnqueue(environment, 4)
  const { queues, job } = await takeRun(environment)
  await until(() => request.notes.includes(`The daemon runs it as job ${job.id}`), { what: 'its run' })
  await queues.runs.removeDeduplicationKey('sync-acme')
  expect(await request.ended).toBe(
    'No run of acme began within 4 s. The daemon keeps the request; see its log.',
  )
})
