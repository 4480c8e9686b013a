import { type Command, Option as CommandOption } from 'commander'
import { wholeNumber } from '#src/present/terminal/options.ts'
import type { Figure } from './figures.ts'

/** An option of a situation. */
export type Option<T> = {
  readonly about: string
  readonly fallback: T
  /** The placeholder of its value in the help; null for a flag. */
  readonly value: string | null
  readonly parse?: (text: string) => T
}

export function count(about: string, fallback: number, min = 1): Option<number> {
  return { about, fallback, value: 'count', parse: wholeNumber(min) }
}

export function text(about: string, fallback: string): Option<string> {
  return { about, fallback, value: 'text' }
}

export function flag(about: string): Option<boolean> {
  return { about, fallback: false, value: null }
}

/** Several numbers, separated by commas. */
export function counts(about: string, fallback: readonly number[], min = 1): Option<readonly number[]> {
  return { about, fallback, value: 'counts', parse: all => all.split(',').map(wholeNumber(min)) }
}

/** For situations that are measured several times in a row: see `Bench.rounds`. */
export const ROUNDS = { runs: count('number of rounds; figures are their medians', 1) }

/** Options of every situation. */
export const SHARED = {
  seed: text('seed of the generated companies', 'bench'),
  json: flag('print one JSON object on stdout'),
  keep: flag('keep the data of the last round and print its path'),
}

type Options = Readonly<Record<string, Option<unknown>>>
/** The values of these options, and of those that every situation has. */
export type Given<O extends Options> = Values<O> & Values<typeof SHARED>

type Values<O extends Options> = { readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never }

/** A situation to measure: one command prints its figures and their bars. */
export type Situation<O extends Options = Options> = {
  readonly name: string
  readonly about: string
  readonly options: O
  /** Whether it reads processes in `/proc`, so that it needs Linux. */
  readonly needsProc?: true
  /** Called before anything else. */
  enter?(options: Values<O>): Promise<void>
  /** @throws Error if what is measured did not do its work: then there is no figure. */
  measure(bench: Bench, options: Given<O>): Promise<Figure[]>
}

/** Gives a situation the types of its options. */
export function situation<O extends Options>(defined: Situation<O>): Situation<O> {
  return defined
}

/** The place in which a situation is measured, and its output. */
export type Bench = {
  /** For everything that is written. */
  readonly directory: string
  /** Makes a directory in it. */
  folder(name: string): Promise<string>
  /** Reports the progress. */
  step(text: string): void
  /** Adds a line below the tables. */
  note(text: string): void
  /** Adds what only the JSON has, to a list with this name. */
  record(name: string, value: unknown): void
  /**
   * Measures as often as `--runs` says, each time in a directory of its own: so a slow moment of the machine does not
   * fall on one of the figures alone.
   */
  rounds(measure: (bench: Bench, round: number) => Promise<Figure[]>): Promise<Figure[]>
}

export function addOptions(command: Command, options: Options): void {
  for (const [name, { about, fallback, value, parse }] of Object.entries(options)) {
    const option = new CommandOption(value === null ? `--${name}` : `--${name} <${value}>`, about)
    if (parse) option.argParser(parse)
    command.addOption(value === null ? option : option.default(fallback, String(fallback)))
  }
}
