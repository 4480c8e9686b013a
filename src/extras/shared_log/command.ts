import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { loadCompanyEnvironment } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { listSealedSegments, listSegmentNumbers } from '#src/core/rawlog/files.ts'
import type { CommandTools, CompanyContext } from '#src/extras/extra.ts'
import type { Listener } from '#src/extras/hold.ts'
import { pluralize } from '#src/lib/count.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { describeHolder } from '#src/lib/lock.ts'
import { type CompanyOptions, createCompanyCommand } from '#src/present/terminal/options.ts'
import { LogInStore, type SharedLogState } from './log.ts'

/** Returns the raw log in an object store. */
export function createLogCommand(environment: Environment, tools: CommandTools): Command {
  const own = (name: string, description: string, work: Part) =>
    part({ environment, tools }, name, description, work)
  return new Command('log')
    .description(
      'Show the raw log in the object store (LOG_URL), move a log there, or copy all of it to this disk.',
    )
    .addCommand(own('status', 'Show what the object store has, and who writes there.', status))
    .addCommand(
      own(
        'push',
        'Copy to the object store what only this disk has: a log that began without LOG_URL.',
        push,
      ),
    )
    .addCommand(
      own(
        'pull',
        'Copy the whole log to this disk. Then you can remove LOG_URL, if no other host uses it.',
        pull,
      ),
    )
}

type Means = { readonly context: CompanyContext; readonly listener: Listener; readonly tools: CommandTools }

type Part = (log: LogInStore, means: Means) => Promise<{ readonly text: string; readonly result: object }>

function part(
  { environment, tools }: { environment: Environment; tools: CommandTools },
  name: string,
  description: string,
  work: Part,
): Command {
  return createCompanyCommand(name, description).action(async ({ company, json }: CompanyOptions) => {
    const settings = readSettings(await loadCompanyEnvironment(environment, company))
    const { text, result } = await tools.withCompany(settings, async (context, listener) => {
      const { sharedLog } = context
      if (!(sharedLog instanceof LogInStore))
        throw new FatalError(
          'LOG_URL is not set, so the raw log is on this disk alone. Set it to share the log.',
          EXIT.usage,
        )
      return await work(sharedLog, { context, listener, tools }).finally(() => sharedLog.release())
    })
    process.stdout.write(json ? `${JSON.stringify(result)}\n` : text)
  })
}

const status: Part = async log => {
  const result = await log.describe()
  return { result, text: describe(result) }
}

function describe({ place, segments, bytes, checkpoints, owner, on_this_disk }: SharedLogState): string {
  const [newest] = checkpoints
  const lines = [
    ['Place', place],
    ['Log', `${pluralize(segments, 'segment')}, ${Math.ceil(bytes / 1000)} kB`],
    [
      'Checkpoint',
      newest ? `of the first ${pluralize(newest.segment, 'segment')}, ${newest.made_at}` : 'none yet',
    ],
    ['Owner', owner ? describeHolder(owner) : 'nobody now'],
    ['This disk', on_this_disk ? `segments ${on_this_disk.first} to ${on_this_disk.last}` : 'no segments'],
  ]
  return `${lines.map(([name, value]) => `${name?.padEnd(11)}${value}`).join('\n')}\n`
}

const push: Part = async (log, { context, listener, tools }) => {
  const { paths } = context
  if (!existsSync(paths.raw) || (await listSegmentNumbers(paths.raw)).length === 0)
    throw new FatalError(
      `${paths.raw} has no segments, so there is no log to copy. Check COMPANY and DATA_DIR.`,
      EXIT.usage,
    )
  const note = 'Segments to the object store'
  const pushed = await tools.holdCompany(context, listener, { what: 'log push', leavesDisk: true }, () =>
    log.push((done, total) => listener.progress({ stage: 'open', done, total, note })),
  )
  const text = pushed > 0 ? `Copied ${pluralize(pushed, 'segment')}.\n` : 'Everything was there already.\n'
  return { text, result: { pushed } }
}

const pull: Part = async (log, { context, listener, tools }) => {
  await tools.assertHasData(context)
  const note = 'Earlier segments from the object store'
  const segments = await tools.holdCompany(context, listener, { what: 'log pull' }, async () => {
    await log.bringWhole((done, total) => listener.progress({ stage: 'open', done, total, note }))
    return (await listSealedSegments(context.paths.raw)).length
  })
  return { text: `This disk has the whole log: ${pluralize(segments, 'segment')}.\n`, result: { segments } }
}
