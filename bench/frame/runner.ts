import { rmSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command, CommanderError } from 'commander'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { checkProc } from '#tools/proc.ts'
import { type Figure, judge, merged } from './figures.ts'
import { describe, describeMachine, type Result, toJson } from './result.ts'
import { addOptions, type Bench, SHARED, type Situation } from './situation.ts'

type Given = Readonly<Record<string, unknown>> & { readonly json?: true; readonly keep?: true }

type Outside = {
  /** Prints the result. */
  readonly print: (text: string) => void
  /** Ends all processes that a situation started. */
  readonly endAll: () => Promise<void>
}

/**
 * Measures the situation that the arguments name, by default the first one, and prints its figures and bars.
 * @returns the exit code: 1 if a bar is missed.
 */
export async function runBench(
  situations: readonly Situation[],
  args: readonly string[],
  outside: Outside,
): Promise<number> {
  let code: number = EXIT.ok
  const program = new Command('npm run bench --')
    .exitOverride()
    .description(
      'Measures one situation, and judges its figures by their bars. Each one has options of its own.',
    )
  for (const [index, situation] of situations.entries()) {
    const command = program.command(situation.name, { isDefault: index === 0 }).description(situation.about)
    addOptions(command, { ...situation.options, ...SHARED })
    command.action(async (given: Given) => {
      code = await runSituation(situation, given, outside)
    })
  }
  try {
    // Commander would take another word for an argument of the default.
    const [first = '-'] = args
    const names = situations.map(({ name }) => name)
    if (!first.startsWith('-') && ![...names, 'help'].includes(first))
      throw new FatalError(`There is no situation ${first}. Use one of ${names.join(', ')}.`, EXIT.usage)
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    if (!(error instanceof FatalError)) throw error
    process.stderr.write(`${error.message}\n`)
    return error.exitCode
  }
  return code
}

/** Measures in a temporary directory; removes it, and ends all processes. */
async function runSituation(situation: Situation, given: Given, { print, endAll }: Outside): Promise<number> {
  if (situation.needsProc) checkProc()
  await situation.enter?.(given)
  const directory = await mkdtemp(join(tmpdir(), 'editais-sync-bench-'))
  const interrupted = new Promise<null>(resolve => {
    process.once('SIGINT', () => resolve(null)).once('SIGTERM', () => resolve(null))
  })
  try {
    const measured = measureSituation(situation, given, directory)
    // After an interrupt, it rejects when its processes are ended below.
    measured.catch(() => {})
    const result = await Promise.race([measured, interrupted])
    if (result === null) return EXIT.interrupted
    print(given.json ? `${JSON.stringify(toJson(result))}\n` : describe(result))
    return result.bars.every(({ met }) => met) ? EXIT.ok : EXIT.failed
  } finally {
    await endAll()
    if (given.keep) process.stderr.write(`The data is in ${directory}\n`)
    // Interrupted work may still create files, so this waits for nothing, and the process ends right after it.
    else rmSync(directory, { recursive: true, force: true, maxRetries: 10 })
  }
}

/** Measures the situation in this directory, and judges its figures. */
export async function measureSituation(
  situation: Situation,
  given: Given,
  directory: string,
): Promise<Result> {
  const { json: _, keep: __, ...options } = given
  const notes: string[] = []
  const records: Record<string, unknown[]> = {}
  const figures = await situation.measure(openBench(directory, given, { notes, records }), given as never)
  const bars = judge(figures)
  return { situation: situation.name, machine: describeMachine(), options, figures, bars, notes, records }
}

type Kept = { readonly notes: string[]; readonly records: Record<string, unknown[]> }

function openBench(directory: string, given: Given, kept: Kept, suffix = ''): Bench {
  const folder = async (name: string) => {
    const path = join(directory, name)
    await mkdir(path, { recursive: true })
    return path
  }
  return {
    directory,
    folder,
    step: text => void process.stderr.write(`${text}${suffix}\n`),
    note: text => void kept.notes.push(text),
    record(name, value) {
      kept.records[name] ??= []
      kept.records[name].push(value)
    },
    async rounds(measure) {
      const { runs = 1, keep } = given as { runs?: number; keep?: true }
      const found: Figure[][] = []
      for (let round = 1; round <= runs; round += 1) {
        const own = await folder(`round-${round}`)
        const which = runs > 1 ? ` (${round} of ${runs})` : ''
        found.push(await measure(openBench(own, given, kept, which), round))
        if (!keep || round < runs) await rm(own, { recursive: true })
      }
      return merged(found)
    },
  }
}
