import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { MARTS } from '#schema/marts/marts.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { type CatalogSource, createRelations, writePortable } from '#src/core/lake/catalog.ts'
import { requireLatest } from '#src/core/lake/manifest.ts'
import { latestSources, sourceOf } from '#src/core/lake/read.ts'
import { Database } from '#src/core/warehouse/database.ts'
import type { CommandTools } from '#src/extras/extra.ts'
import { counted } from '#src/lib/count.ts'
import { writeBeside } from '#src/lib/durable.ts'
import { EXIT, FatalError, messageOf } from '#src/lib/errors.ts'
import { writeBrazilianCsv } from './brazilian_csv.ts'

const ANOTHER_FILE = 'Name another file with --to.'

type Options = { to: string; company?: string; all?: true; xlsx?: true; csv?: true }

export function exportCommand(environment: Environment, { lakesOf }: Pick<CommandTools, 'lakesOf'>): Command {
  return new Command('export')
    .description(
      'Write the latest snapshot as one DuckDB file that can be copied anywhere: tables, marts, comments.',
    )
    .requiredOption('--to <path>', 'file to write, or with --csv a directory; existing files are replaced')
    .option('--xlsx', 'write a workbook instead: one sheet per mart')
    .option('--csv', 'write CSV files instead: one file per mart, with semicolons and decimal commas')
    .option('--company <slug>', 'company to export, instead of COMPANY')
    .option('--all', 'export the latest snapshots of all configured companies together')
    .action(async (options: Options) => {
      if (options.all && options.company)
        throw new FatalError('Use --all or --company, not both.', EXIT.usage)
      if (options.xlsx && options.csv) throw new FatalError('Use --xlsx or --csv, not both.', EXIT.usage)
      const sources = options.all
        ? await latestSources(await lakesOf(environment))
        : [await latestSource(environment, options.company)]
      const path = resolve(options.to)
      if (options.csv) await exportCsv(path, sources)
      else if (options.xlsx) await exportWorkbook(path, sources)
      else await exportDatabase(path, sources)
    })
}

async function latestSource(environment: Environment, company?: string): Promise<CatalogSource> {
  const settings = readSettings(await environmentOf(environment, company))
  return sourceOf(await requireLatest(companyPaths(settings.dataDir, settings.company).lake))
}

async function exportDatabase(path: string, sources: readonly CatalogSource[]): Promise<void> {
  await writeBeside(path, ANOTHER_FILE, temporary =>
    withDatabase(dirname(temporary), db => writePortable(db, temporary, sources)),
  )
  print(`${path}: ${describe(sources)} (${await megabytes(path)})`)
}

async function exportWorkbook(path: string, sources: readonly CatalogSource[]): Promise<void> {
  // Loaded only here, because only this needs its library.
  const [{ buildWorkbook, MAX_SHEET_ROWS }, { checkWorkbook }] = await Promise.all([
    import('./workbook.ts'),
    import('./workbook.ts'),
  ])
  const { sheets, leftOut } = await writeBeside(path, ANOTHER_FILE, temporary =>
    withDatabase(dirname(temporary), async db => {
      await createRelations(db, sources)
      const { bytes, rows, ...about } = await buildWorkbook(db)
      await writeFile(temporary, bytes)
      await checkWorkbook(temporary, rows)
      return about
    }),
  )
  print(`${path}: ${describe(sources)}, ${counted(sheets, 'mart')} (${await megabytes(path)})`)
  for (const { name, rows } of leftOut)
    process.stderr.write(
      `${name} was left out: it has ${counted(rows, 'row')}, and a sheet takes at most ${MAX_SHEET_ROWS}. Use --csv for it.\n`,
    )
}

async function exportCsv(directory: string, sources: readonly CatalogSource[]): Promise<void> {
  await mkdir(directory, { recursive: true }).catch(error => {
    throw new FatalError(
      `${directory} cannot be created: ${messageOf(error)}. Name another directory with --to.`,
      EXIT.usage,
    )
  })
  await withDatabase(directory, async db => {
    await createRelations(db, sources)
    for (const mart of MARTS)
      await writeBeside(join(directory, `${mart.name}.csv`), ANOTHER_FILE, temporary =>
        writeBrazilianCsv(db, mart, temporary),
      )
  })
  print(`${directory}: ${describe(sources)}, ${counted(MARTS.length, 'mart')}`)
}

/**
 * Runs `work` with a database in memory.
 * @param near where temporary files may be written: the system's temporary directory may be in memory.
 */
async function withDatabase<T>(near: string, work: (db: Database) => Promise<T>): Promise<T> {
  const temporaryDirectory = await mkdtemp(join(near, 'spill-'))
  const db = await Database.open(':memory:', { temporaryDirectory })
  try {
    return await work(db)
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

async function megabytes(path: string): Promise<string> {
  return `${Math.ceil((await stat(path)).size / 1e6)} MB`
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
