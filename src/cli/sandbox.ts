import { setTimeout as sleep } from 'node:timers/promises'
import { Command, InvalidArgumentError } from 'commander'
import { isDateTime } from '#schema/times.ts'
import { pluralize } from '#src/lib/count.ts'
import { getMessage } from '#src/lib/errors.ts'
import { stopSignal, untilStopped } from '#src/lib/exit.ts'
import { FAULT_HELP, type Fault, parseFault } from '#src/sandbox/faults.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { type Change, startLiving } from '#src/sandbox/live.ts'
import { deriveSandboxKey, type SandboxCompany, startSandbox } from '#src/sandbox/server.ts'
import { type ListOrder, ORDERS, readNoticesFile, World } from '#src/sandbox/world.ts'
import { LIST_PATH } from '#src/server/contract/routes.ts'

const SLUGS = ['aurora', 'boreal', 'cerrado', 'dunas', 'estrela', 'farol', 'guara', 'horizonte'] as const
/** An exiting process has no signal handlers any more: it must still have them when npm repeats the signal. */
const SECOND_SIGNAL_MS = 100

type Options = {
  host: string
  port: number
  companies: number
  noticesPerCompany: number
  seed: string
  start?: Date
  notices?: string
  order: ListOrder
  live?: number | true
  latency?: number
  fault?: Fault[]
}

type LivingCompany = SandboxCompany & { readonly world: World }

export function createSandboxCommand(): Command {
  return new Command('sandbox')
    .description('Serve the whole API on this machine, with made-up companies, until Ctrl-C.')
    .option('--host <address>', 'address to listen on; 0.0.0.0 for all, as in a container', '127.0.0.1')
    .option('--port <port>', 'port to listen on; 0 takes a free one', whole(0, 65_535), 8787)
    .option('--companies <number>', 'number of companies, each with its own key', whole(1, SLUGS.length), 2)
    .option('--notices-per-company <number>', 'number of notices of each company', whole(1, 200_000), 300)
    .option('--seed <text>', 'decides companies, keys and notices; the same seed gives the same', '1')
    .option('--start <date-time>', 'time in the made-up world (default: now)', parseInstant)
    .option(
      '--notices <file>',
      'serve the notices of this file instead: lines of {"edital", "analysis"}, may be gzipped',
    )
    .option(
      '--order <field>',
      `what "most recent first" means: ${ORDERS.join(', ')}`,
      parseOrder,
      'created_at',
    )
    .option('--live [seconds]', 'let notices arrive, move and expire, at this interval (5)', whole(1, 86_400))
    .option('--latency <ms>', 'delay each answer by this time', whole(0, 600_000))
    .option('--fault <fault>', 'inject a fault (repeatable); see below', collectFaults)
    .addHelpText(
      'after',
      `\n${FAULT_HELP}\n\nExample: editais sandbox --live 2 --fault status=429,retry_after=1,probability=0.05`,
    )
    .action(serve)
}

async function serve(options: Options): Promise<void> {
  const companies = await openCompanies(options)
  const latency: Fault[] = options.latency === undefined ? [] : [{ fault: 'latency', ms: options.latency }]
  const sandbox = await startSandbox({
    companies,
    host: options.host,
    port: options.port,
    seed: options.seed,
    faults: { plan: [...latency, ...(options.fault ?? [])], onRequest: undefined, respond: undefined },
  })
  // The sandbox continues if its stdout is closed.
  process.stdout.on('error', () => {})
  process.stdout.write(greeting(sandbox.url, companies))
  const stopLiving = live(companies, options)
  await untilStopped(stopSignal(() => {}))
  await sleep(SECOND_SIGNAL_MS)
  stopLiving()
  await sandbox.close()
  process.stdout.write(`Stopped after ${pluralize(sandbox.requests.total, 'request')}.\n`)
}

async function openCompanies(options: Options): Promise<LivingCompany[]> {
  const { seed, noticesPerCompany: notices, start = new Date(), order } = options
  const entries = options.notices === undefined ? null : await readNoticesFile(options.notices)
  const slugs = SLUGS.slice(0, options.companies)
  return slugs.map((slug, position) => {
    const world = entries
      ? new World(entries.filter((_, index) => index % slugs.length === position))
      : generateWorld({ seed, company: slug, notices, start })
    world.setOrder(order)
    return { slug, key: deriveSandboxKey(seed, slug), world }
  })
}

function live(companies: readonly LivingCompany[], options: Options): () => void {
  if (options.live === undefined) return () => {}
  const intervalMs = (options.live === true ? 5 : options.live) * 1000
  const stops = companies.map(({ slug, world }) =>
    startLiving(world, {
      intervalMs,
      seed: `${options.seed} ${slug}`,
      onTick: changes =>
        void process.stdout.write(changes.length > 0 ? `${slug}: ${describeChanges(changes)}\n` : ''),
    }),
  )
  return () => stops.forEach(stop => void stop())
}

function describeChanges(changes: readonly Change[]): string {
  return changes.map(({ what, id }) => `${what.replace('_', ' ')} ${id.slice(0, 8)}`).join(', ')
}

function greeting(url: string, companies: readonly LivingCompany[]): string {
  const rows = companies.map(
    ({ slug, key, world }) => `  ${slug.padEnd(10)} ${pluralize(world.size, 'notice').padStart(15)}   ${key}`,
  )
  const [first] = companies
  return `The sandbox serves ${url}${LIST_PATH}

${rows.join('\n')}

Try it:

  curl -s -H 'Authorization: Bearer ${first?.key}' '${url}${LIST_PATH}?limit=2'

For .env:

API_BASE_URL=${url}
API_KEY=${first?.key}
COMPANY=${first?.slug}

Stop it with Ctrl-C.
`
}

function whole(min: number, max: number): (text: string) => number {
  return text => {
    const value = /^\d+$/u.test(text) ? Number(text) : Number.NaN
    if (!(value >= min && value <= max))
      throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`)
    return value
  }
}

function parseInstant(text: string): Date {
  const instant = new Date(text)
  // Without an offset, the instant would depend on the machine's time zone.
  if (!isDateTime(text) || !/(?:Z|[+-]\d{2}:\d{2})$/u.test(text) || Number.isNaN(instant.getTime())) {
    throw new InvalidArgumentError('Expected a date-time with an offset, such as 2026-11-20T12:00:00Z.')
  }
  return instant
}

function parseOrder(text: string): ListOrder {
  const order = ORDERS.find(known => known === text)
  if (!order) throw new InvalidArgumentError(`Expected one of ${ORDERS.join(', ')}.`)
  return order
}

function collectFaults(text: string, earlier: readonly Fault[] = []): Fault[] {
  try {
    return [...earlier, parseFault(text)]
  } catch (error) {
    throw new InvalidArgumentError(getMessage(error))
  }
}
