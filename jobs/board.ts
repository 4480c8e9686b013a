import type { Hono } from 'hono'
import { messageOf } from '#src/errors.ts'
import type { Queues } from './queue.ts'

/**
 * Bull Board below `basePath`: shows what is in the queues, and lets an operator retry, remove and pause.
 * Loaded when it is first looked at: an idle worker stays small without it.
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
  createBullBoard({
    queues: [
      new BullMQAdapter(runs, { description: "Runs: a company's sync or its maintenance" }),
      new BullMQAdapter(ticks, { description: 'Schedules: each tick only asks for a run' }),
    ],
    serverAdapter,
    options: { uiConfig: { boardTitle: 'editais-sync' } },
  })
  // Its own handler shows stacks where NODE_ENV says that somebody develops.
  serverAdapter.setErrorHandler(error => ({
    status: 500,
    body: { error: { key: 'ERRORS.INTERNAL_SERVER_ERROR' }, message: messageOf(error) },
  }))
  return new Hono({ strict: false }).route(basePath, serverAdapter.registerPlugin())
}
