import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { thisMachine } from '../result.ts'
import { judgeMonth } from './bars.ts'
import { figuresOf } from './figures.ts'
import { checkHeld } from './held.ts'
import { measureMonth } from './measure.ts'
import type { MonthBench } from './result.ts'

export type MonthOptions = { readonly notices: number; readonly hours: number; readonly seed: string }

/** Simulates a company for some hours, with one run in each; by default, progress goes to stderr. */
export async function benchMonth(
  options: MonthOptions,
  directory: string,
  onStep = (step: string) => void process.stderr.write(`${step}\n`),
): Promise<MonthBench> {
  checkHeld()
  const { notices, hours, seed } = options
  const measured = await measureMonth({
    notices,
    hours,
    seed,
    apiKey: randomBytes(16).toString('hex'),
    dataDir: join(directory, 'data'),
    onStep,
  })
  const figures = figuresOf(measured)
  return {
    machine: thisMachine(),
    settings: { notices, hours, seed },
    measured,
    figures,
    bars: judgeMonth(figures),
  }
}
