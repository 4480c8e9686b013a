import { Command, CommanderError } from 'commander'
import { type Environment, loadEnvironment } from '#config/settings.ts'
import { makePrintableLines } from '#schema/text_key.ts'
import { EXIT, explain, FatalError } from '#src/lib/errors.ts'
import { endProcess, endWithReader } from '#src/lib/exit.ts'
import { readVersion } from '#src/lib/version.ts'
import type { Sync } from './init.ts'
import type { Forget } from './recover.ts'
import type { Enqueue } from './sync.ts'

/** The daemon's side of `sync --enqueue`; loaded only for it, so that commands without Redis start sooner. */
const enqueue: Enqueue = async ({ environment, ...request }) => {
  const [{ readRedisSettings }, { enqueue }, { logLibraryLines }] = await Promise.all([
    import('#config/daemon.ts'),
    import('#jobs/enqueue.ts'),
    import('#src/lib/log.ts'),
  ])
  logLibraryLines(request.log)
  return await enqueue({ ...request, redis: readRedisSettings(environment) })
}

/** The daemon's side of `restore`. */
const forget: Forget = async ({ environment, log, ...restored }) => {
  const [{ readRedisSettings }, { forgetBefore }] = await Promise.all([
    import('#config/daemon.ts'),
    import('#jobs/after_restore.ts'),
  ])
  return await forgetBefore(readRedisSettings(environment), restored, log)
}

type Open = (environment: Environment) => Promise<Command>

/** Each is loaded only when it is used: an incremental run should not pay for the sandbox's vocabulary. */
const COMMANDS: Readonly<Record<string, Open>> = {
  sync: async environment => (await import('./sync.ts')).createSyncCommand(environment, enqueue),
  init: async environment => {
    const { createSyncCommand } = await import('./sync.ts')
    const sync: Sync = async (own, args) =>
      void (await createSyncCommand(own, enqueue).parseAsync(args, { from: 'user' }))
    return (await import('./init.ts')).createInitCommand(environment, sync)
  },
  start: async () =>
    new Command('start')
      .description(
        'Keep all companies in step on their schedules, and serve their data: the daemon, which needs Redis.',
      )
      .action(async () => void (await import('#jobs/main.ts'))),
  status: async environment => (await import('./status.ts')).createStatusCommand(environment),
  query: async environment => (await import('./query.ts')).createQueryCommand(environment),
  ask: async environment => (await import('./query.ts')).askCommand(environment),
  catalog: async environment => (await import('./catalog.ts')).createCatalogCommand(environment),
  dictionary: async () => (await import('./dictionary.ts')).createDictionaryCommand(),
  replay: async environment => (await import('./recover.ts')).createReplayCommand(environment),
  rebuild: async environment => (await import('./recover.ts')).createRebuildCommand(environment),
  publish: async environment => (await import('./recover.ts')).createPublishCommand(environment),
  restore: async environment => (await import('./recover.ts')).createRestoreCommand(environment, forget),
  doctor: async environment => (await import('./doctor.ts')).createDoctorCommand(environment),
  serve: async environment => (await import('./serve.ts')).createServeCommand(environment),
  mcp: async environment => (await import('./mcp.ts')).createMcpCommand(environment),
  keys: async environment => (await import('./keys.ts')).createKeysCommand(environment),
  webhooks: async environment => (await import('./webhooks.ts')).createWebhooksCommand(environment),
  sandbox: async () => (await import('./sandbox.ts')).createSandboxCommand(),
  demo: async environment => (await import('./demo.ts')).createDemoCommand(environment),
}

/** Returns the commands of extras, which are loaded only if they are asked for. */
async function commandsOfExtras(): Promise<Record<string, Open>> {
  const { EXTRAS } = await import('#src/extras.ts')
  const { EXTRA_TOOLS } = await import('./extra_tools.ts')
  const all = EXTRAS.flatMap(({ commands = {} }) => Object.entries(commands))
  return Object.fromEntries(all.map(([name, open]) => [name, environment => open(environment, EXTRA_TOOLS)]))
}

const VERSION = '--version'

async function createProgram(name: string | undefined, environment: Environment): Promise<Command> {
  const program = new Command('editais')
    .description('Mirrors public tender notices and their analyses into DuckDB tables and Parquet snapshots.')
    .version(readVersion(), VERSION, 'print the version')
    .addHelpText('after', '\nIn a checkout, type npx first: npx editais sync --help')
  // The commands are not needed for it.
  if (name === VERSION) return program.exitOverride()
  const isOwn = name !== undefined && Object.hasOwn(COMMANDS, name)
  const commands = isOwn ? COMMANDS : { ...COMMANDS, ...(await commandsOfExtras()) }
  const known = name !== undefined && Object.hasOwn(commands, name) ? [name] : Object.keys(commands)
  for (const one of known) {
    program.addCommand(await (commands[one] as Open)(environment))
  }
  const nested = program.commands.flatMap(({ commands }) => commands)
  for (const command of [program, ...program.commands, ...nested]) {
    command.exitOverride().showHelpAfterError('(add --help for the options)').showSuggestionAfterError()
  }
  return program
}

/** `npm run sync --plan` has the options -p, -l, -a and -n of npm; of those, this one is not its default. */
const PLAN_AS_READ_BY_NPM = 'parseable'

/** Throws FatalError (usage) if npm kept an option of the command for itself: a plan without its option would be a run. */
function refuseKeptByNpm(program: Command, environment: Environment): void {
  const { npm_lifecycle_event: script } = environment
  const command = program.commands.find(known => known.name() === script && script === process.argv[2])
  const options = [command, ...(command?.commands ?? [])].flatMap(one => one?.options ?? [])
  const kept = options.flatMap(({ long }) => {
    const name = long === '--plan' ? PLAN_AS_READ_BY_NPM : long?.slice(2).replaceAll('-', '_')
    const value = environment[`npm_config_${name}`]
    if (!value || process.argv.some(given => given.split('=')[0] === long)) return []
    return [value === 'true' ? `${long}` : `${long} ${value}`]
  })
  if (kept.length === 0) return
  const all = [...new Set(kept)].join(' ')
  throw new FatalError(
    `npm kept ${all} for itself. Nothing was done. Write: npx editais ${[...process.argv.slice(2), all].join(' ')}`,
    EXIT.usage,
  )
}

endWithReader()
try {
  const environment = loadEnvironment()
  const program = await createProgram(process.argv[2], environment)
  refuseKeptByNpm(program, environment)
  await program.parseAsync()
} catch (error) {
  if (error instanceof CommanderError) {
    // Commander has already printed the message.
    process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage
  } else {
    const { message, exitCode } = explain(error)
    process.stderr.write(`${makePrintableLines(message)}\n`)
    // An interrupted command ends at once: it does not wait for a library's timers.
    if (exitCode === EXIT.interrupted) endProcess(exitCode)
    process.exitCode = exitCode
  }
}
