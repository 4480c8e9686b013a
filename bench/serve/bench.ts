import { randomBytes } from 'node:crypto'
import { checkProc } from '../daemon/proc.ts'
import { startServer } from '../processes.ts'
import { thisMachine } from '../result.ts'
import { measureServe } from './measure.ts'
import { judgeServe, type ServeBench } from './result.ts'

export type ServeOptions = {
  readonly notices: number
  readonly clients: number
  readonly seconds: number
  readonly seed: string
}

/** Measures the mirror with one company; progress goes to stderr. */
export async function benchServe(options: ServeOptions, directory: string): Promise<ServeBench> {
  checkProc()
  const { notices, seed } = options
  const onStep = (step: string) =>
    void process.stderr.write(`${notices.toLocaleString('en-US')} notices: ${step}\n`)
  onStep('generating')
  const apiKey = randomBytes(16).toString('hex')
  const server = await startServer({ companies: [{ notices, seed, apiKey }], latencyMs: 0 })
  const measured = await measureServe({ ...options, server, apiKey, directory, onStep })
  await server.close()
  return { machine: thisMachine(), settings: options, measured, bars: judgeServe(options, measured) }
}
