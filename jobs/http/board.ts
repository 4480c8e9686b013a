import type { Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { type Queues, readJobCompany } from '#jobs/queues/queue.ts'
import { getMessage } from '#src/lib/errors.ts'

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
      (job: { name: string; data?: unknown }) => `${job.name} ${readJobCompany({ data: job.data }) ?? ''}`,
    )
    queue.addJob = refuseJob
  }
  createBullBoard({ queues, serverAdapter, options: { uiConfig: { boardTitle: 'editais-sync' } } })
  // Its own handler shows stack traces if NODE_ENV is development.
  serverAdapter.setErrorHandler(error => {
    const [status, key] = error instanceof HTTPException ? REFUSED : FAILED
    return { status, body: { error: { key }, message: getMessage(error) } }
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

/** Names of the buttons that show only an icon, by the icon's class. */
const NAMES = {
  'lucide-maximize': 'Full screen',
  'lucide-minimize': 'Leave full screen',
  'lucide-settings': 'Settings of this page',
  'lucide-ellipsis-vertical': 'More actions',
  'lucide-arrow-down-up': 'Sort',
  'lucide-arrow-up-down': 'Sort',
  'lucide-refresh-cw': 'Retry this job',
  'lucide-files': 'Duplicate this job',
  'lucide-copy': 'Copy',
  'lucide-pencil': 'Edit the data of this job',
  'lucide-trash-2': 'Remove this job',
  'lucide-circle-arrow-up': 'Promote this job',
  'lucide-x': 'Close',
}

/** Contrast of 4.5 or more for all texts. */
const STYLE = `
:root { --muted-foreground: #4f5a65; --primary: #0b5e55; --hl-meta: #5b6570; --destructive: #b3261e;
  --status-failed: #b91c1c; --status-completed: #166534; --status-waiting: #92400e; --status-waiting-children: #9a3412;
  --status-prioritized: #86198f; --status-active: #1d4ed8; --status-delayed: #6d28d9 }
.dark-mode { --muted-foreground: #a7b1be; --primary: #3ecfb2; --hl-meta: #a7b1be; --destructive: #f0908a;
  --status-failed: #f0908a; --status-completed: #5fca85; --status-waiting: #dcb95a; --status-waiting-children: #eab07f;
  --status-prioritized: #dd9be6; --status-active: #8fb4f0; --status-delayed: #b9a4ee }
header p { opacity: 1 !important }
`

/**
 * Adds what Bull Board lacks for people who cannot see it. The board draws itself again after each answer, so this runs again
 * within a frame of each change.
 */
const SCRIPT = `const NAMES = ${JSON.stringify(NAMES)}
const set = (element, name, value) => {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value)
}
const every = (selector, change) => document.querySelectorAll(selector).forEach(change)
function mend() {
  every('button:not([aria-label]):has(> svg)', button => {
    if (button.textContent.trim() !== '' && !button.querySelector('svg[role=img]')) return
    const icon = [...button.querySelector('svg').classList].find(name => name in NAMES)
    set(button, 'aria-label', icon ? NAMES[icon] : button.querySelector('svg[role=img]') ? 'Redis' : 'Action')
  })
  // A person who controls the page by voice says the text on the button.
  every('button[aria-label]', button => {
    const [shown, name] = [button.textContent.trim(), button.getAttribute('aria-label')]
    if (!name.includes(shown)) set(button, 'aria-label', shown + ': ' + name)
  })
  every('svg[role=img]', svg => { set(svg, 'role', 'none'); set(svg, 'aria-hidden', 'true') })
  every('header a > img', img => set(img, 'alt', ''))
  every('main h5', heading => { set(heading, 'role', 'heading'); set(heading, 'aria-level', '2') })
  every('a[aria-label^="Schedulers ("]', link => link.removeAttribute('aria-label'))
  every('th:empty', header => set(header, 'role', 'cell'))
  const lacksHeading = document.querySelector('h1') === null
  every('header a > span', title => {
    if (lacksHeading) { set(title, 'role', 'heading'); set(title, 'aria-level', '1') }
    else { title.removeAttribute('role'); title.removeAttribute('aria-level') }
  })
}
let waits = false
new MutationObserver(() => {
  if (waits) return
  waits = true
  requestAnimationFrame(() => { waits = false; mend() })
}).observe(document, { childList: true, subtree: true })
`

/** Adds to Bull Board's page below `basePath`, of `board`, what it lacks; its fonts of another host are left out. */
function mendPage(board: Hono, basePath: string): void {
  board.get(`${basePath}/names.js`, context =>
    context.body(SCRIPT, 200, { 'content-type': 'text/javascript; charset=utf-8' }),
  )
  board.use(`${basePath}/*`, async (context, next) => {
    await next()
    if (!context.res.headers.get('content-type')?.startsWith('text/html')) return
    const page = await context.res.text()
    context.res = context.html(
      page
        .replace(/<link href="https:[^<>]*>/g, '')
        .replace('</head>', `<style>${STYLE}</style><script src="names.js"></script></head>`),
    )
  })
}
