import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { type Callee, startCallee } from '../processes/calls.ts'
import type { ApiCalls, ApiOptions, Counters, Mark } from './api_process.ts'
import type { About } from './world.ts'

/** A generated company, and the key of its API. */
export type Company = {
  readonly slug: string
  readonly notices: number
  readonly seed: string
  readonly apiKey: string
}

type Size = { readonly notices: number; readonly seed: string }

/** Describes a company to generate: the same size and seed give the same notices. Its key is new each time. */
export function companyOf({ notices, seed }: Size, slug = 'bench'): Company {
  return { slug, notices, seed, apiKey: randomBytes(16).toString('hex') }
}

/** `count` different companies. */
export function companiesOf(count: number, { notices, seed }: Size): Company[] {
  return Array.from({ length: count }, (_, index) =>
    companyOf({ notices, seed: `${seed}:${index + 1}` }, slugOf(index)),
  )
}

function slugOf(index: number): string {
  return `company-${String(index + 1).padStart(2, '0')}`
}

/** The companies' API, in its own process. */
export type Api = {
  readonly pid: number
  readonly url: string
  /** One for each company, in order. */
  readonly about: readonly About[]
  /** Requests since the last call. */
  counters(): Promise<Counters>
  /** Changes this share of each company's notices; resolves to their number. */
  change(share: number): Promise<number>
  /** Resolves when the mark is reached; only one call at a time. */
  reached(mark: Mark): Promise<void>
  close: Callee<ApiCalls>['close']
}

/** Generates the companies in a new process, and resolves once it answers. */
export async function startApi(companies: readonly Company[], latencyMs = 0): Promise<Api> {
  const file = fileURLToPath(new URL('api_process.ts', import.meta.url))
  const options: ApiOptions = { companies, latencyMs }
  const { pid, call, close } = await startCallee<ApiCalls>(file, options)
  return {
    pid,
    url: await call('url'),
    about: await call('about'),
    counters: () => call('counters'),
    change: share => call('change', share),
    reached: mark => call('reached', mark),
    close,
  }
}
