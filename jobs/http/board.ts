import type { Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { jobCompany } from '#jobs/queues/job_data.ts'
import type { Queues } from '#jobs/queues/queue.ts'
import { messageOf } from '#src/lib/errors.ts'
import { mendPage } from './board_page.ts'

/** Status, and the key of a headline that the page translates. */
const REFUSED = [403, 'ERRORS.FORBIDDEN'] as const
const FAILED = [500, 'ERRORS.INTERNAL_SERVER_ERROR'] as const

/**
 * Creates Bull Board below `basePath`: it shows what is in the queues, and lets an operator retry, remove and pause. Loads it on
 * first use, so that an idle worker stays small.
 */
export async function createBoard(
  { ticks, runs }: Pick<Queues, 'ticks' | 'runs'>,
  basePath: string,
): Promise<Hono> {
  const [{ createBullBoard }, { BullMQAdapter }, { HonoAdapter }, { Hono }, { serveStatic }] =
    await Promise.all([
      import('@bull-board/api'),
      import('@bull-board/api/bullMQAdapter'),
      import('@bull-board/hono'),
      import('hono'),
      import('@hono/node-server/serve-static'),
    ])
  const serverAdapter = new HonoAdapter(serveStatic).setBasePath(basePath)
  const queues = [
    new BullMQAdapter(runs, { description: "Runs: a company's sync or its maintenance" }),
    new BullMQAdapter(ticks, { description: 'Schedules: each tick only requests a run' }),
  ]
  for (const queue of queues) {
    queue.setFormatter(
      'name',
      (job: { name: string; data?: unknown }) => `${job.name} ${jobCompany({ data: job.data }) ?? ''}`,
    )
    queue.addJob = refuseJob
  }
  createBullBoard({ queues, serverAdapter, options: { uiConfig: { boardTitle: 'editais-sync' } } })
  // Its own handler shows stack traces if NODE_ENV is development.
  serverAdapter.setErrorHandler(error => {
    const [status, key] = error instanceof HTTPException ? REFUSED : FAILED
    return { status, body: { error: { key }, message: messageOf(error) } }
  })
  const board = new Hono({ strict: false })
  mendPage(board, basePath)
  return board.route(basePath, serverAdapter.registerPlugin())
}

/** Rejects a job added on the board: only requestRun ensures that no company has two waiting runs. */
async function refuseJob(): Promise<never> {
  throw new HTTPException(403, {
    message: 'Jobs cannot be added here. Run a scheduler now, or POST /companies/{company}/sync.',
  })
}
