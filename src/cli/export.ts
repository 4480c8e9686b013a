import { mkdtemp, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { counted } from '#src/platform/count.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { companyPaths } from '#src/store/company.ts'
import { type CatalogSource, writePortable } from '#src/store/lake/catalog.ts'
import { requireLatest } from '#src/store/lake/latest.ts'
import { latestSources, sourceOf } from '#src/store/lake/read.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { lakesOf } from './query.ts'
import { writeBeside } from './write_beside.ts'

type Options = { to: string; company?: string; all?: true }

export function exportCommand(environment: Environment): Command {
  return new Command('export')
    .description(
      'Write the latest snapshot as one DuckDB file that can be copied anywhere: tables, marts, comments.',
    )
    .requiredOption('--to <file>', 'file to write; an existing one is replaced')
    .option('--company <slug>', 'company to export, instead of COMPANY')
    .option('--all', 'export the latest snapshots of all configured companies together')
    .action(async (options: Options) => {
      if (options.all && options.company)
        throw new FatalError('Use --all or --company, not both.', EXIT.usage)
      const sources = await sourcesOf(environment, options)
      const path = resolve(options.to)
      await writeBeside(path, '--to', temporary => exportTo(temporary, sources))
      const { size } = await stat(path)
      process.stdout.write(`${path}: ${describe(sources)} (${Math.ceil(size / 1e6)} MB)\n`)
    })
}

async function sourcesOf(environment: Environment, { all, company }: Options): Promise<CatalogSource[]> {
  if (all) return await latestSources(await lakesOf(environment))
  const settings = readSettings(await environmentOf(environment, company))
  return [sourceOf(await requireLatest(companyPaths(settings.dataDir, settings.company).lake))]
}

async function exportTo(path: string, sources: readonly CatalogSource[]): Promise<void> {
  // Beside the file, because the system's temporary directory may be in memory.
  const temporaryDirectory = await mkdtemp(join(dirname(path), 'spill-'))
  const db = await Database.open(':memory:', { temporaryDirectory })
  try {
    await writePortable(db, path, sources)
  } finally {
    db.close()
    await rm(temporaryDirectory, { recursive: true, force: true })
  }
}

function describe(sources: readonly CatalogSource[]): string {
  const notices = sources.flatMap(({ files }) => files.get('editais') ?? [])
  const rows = notices.reduce((sum, file) => sum + file.rows, 0)
  return `${counted(rows, 'notice')} of ${sources.map(({ company }) => company).join(', ')}`
}
