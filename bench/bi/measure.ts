import { realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { VIEWS } from '#schema/marts/marts.ts'
import { companyPaths } from '#src/store/company.ts'
import { latestLink, type Manifest, readManifest } from '#src/store/lake/manifest.ts'
import type { RunReport } from '#src/store/run_report.ts'
import { commandOf } from '../command.ts'
import { CHANGED_SHARE } from '../measure.ts'
import { type Ended, run, type Server } from '../processes.ts'
import type { MartTimes } from './mart.ts'
import { compareSnapshots, type Months, monthsOf, type Written } from './written.ts'

const COMPANY = 'bench'
const MART = fileURLToPath(new URL('mart.ts', import.meta.url))

/** All measurements of one company. */
export type Measured = {
  readonly fullSeconds: number
  readonly changed: Written & Months & { readonly changes: number }
  readonly changedSeconds: number
  /** By name of the mart, each in its own process. */
  readonly marts: Readonly<Record<string, MartTimes>>
  readonly report: { readonly wallSeconds: number; readonly bytes: number }
}

export type MeasureOptions = {
  readonly server: Server
  readonly notices: number
  readonly apiKey: string
  /** An empty directory for everything that is written. */
  readonly directory: string
  readonly onStep: (step: string) => void
}

/**
 * A full sync, one with some notices changed, and then the latest snapshot as readers find it, with several
 * versions of some notices. No notice changes its phase: the marts of phase changes scan all and find none.
 * @throws Error if a run did not do the expected work.
 */
export async function measureBi(options: MeasureOptions): Promise<Measured> {
  const { server, notices, onStep } = options
  onStep('full sync')
  const full = await sync(options, { args: ['--full'], loaded: notices })
  const before = await latest(options)
  onStep('some notices of the newest months changed')
  const changes = await server.change(CHANGED_SHARE)
  const changed = await sync(options, { args: [], loaded: changes })
  const after = await latest(options)
  if (after.directory === before.directory) throw new Error('The change was not published')
  const written = await compareSnapshots(before.directory, after.directory)
  onStep('marts')
  const marts = await askMarts(options, join(after.directory, 'catalog.duckdb'))
  onStep('report')
  const report = await writeReport(options)
  return {
    fullSeconds: wall(full),
    changedSeconds: wall(changed),
    marts,
    report,
    changed: { ...written, ...monthsOf(after), changes },
  }
}

const wall = ({ startedMs, endedMs }: Ended) => (endedMs - startedMs) / 1000
const dataDirectory = ({ directory }: MeasureOptions) => join(directory, 'data')

async function sync(
  options: MeasureOptions,
  { args, loaded }: { args: readonly string[]; loaded: number },
): Promise<Ended> {
  const ended = await runCommand('sync', options, [...args, '--json'])
  const report = JSON.parse(ended.stdout) as RunReport
  if (report.status === 'ok' && report.loaded === loaded) return ended
  throw new Error(`Unexpected run: expected ${loaded} loaded analyses: ${ended.stdout}`)
}

async function runCommand(name: string, options: MeasureOptions, args: readonly string[]): Promise<Ended> {
  const command = await commandOf(name)
  return await run(command.file, [...command.args, ...args], {
    cwd: options.directory,
    nodeOptions: command.nodeOptions,
    env: {
      API_BASE_URL: options.server.url,
      API_KEY: options.apiKey,
      COMPANY,
      DATA_DIR: dataDirectory(options),
      SOURCE_TIMEZONE: 'America/Sao_Paulo',
      LOG_LEVEL: 'warn',
    },
  })
}

async function latest(options: MeasureOptions): Promise<Manifest> {
  const { lake } = companyPaths(dataDirectory(options), COMPANY)
  const manifest = await readManifest(await realpath(latestLink(lake)))
  if (!manifest) throw new Error(`The latest snapshot in ${lake} cannot be read`)
  return manifest
}

/** One after another, so that each has all cores, as a single reader has. */
async function askMarts(options: MeasureOptions, catalog: string): Promise<Record<string, MartTimes>> {
  const marts: Record<string, MartTimes> = {}
  for (const { name } of VIEWS) {
    const { stdout } = await run(MART, [catalog, name], { cwd: options.directory })
    marts[name] = JSON.parse(stdout) as MartTimes
  }
  return marts
}

async function writeReport(options: MeasureOptions): Promise<Measured['report']> {
  const output = join(options.directory, 'report.html')
  const ended = await runCommand('report', options, ['--output', output])
  return { wallSeconds: wall(ended), bytes: (await stat(output)).size }
}
