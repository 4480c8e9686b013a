import { rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Command } from 'commander'
import { type Environment, readSettings } from '#config/settings.ts'
import { syncPath } from '#src/durable.ts'
import { EXIT, FatalError, messageOf } from '#src/errors.ts'
import { writeCatalog } from '#src/lake/catalog.ts'
import { latestSources } from '#src/lake/read.ts'
import { Database } from '#src/warehouse/database.ts'
import { lakesOf } from './query.ts'

export function catalogCommand(environment: Environment): Command {
  return new Command('catalog')
    .description(
      'Write one catalog over the latest snapshots of all configured companies, for readers that know no --all.',
    )
    .option('--output <file>', 'where to, instead of DATA_DIR/catalog.duckdb')
    .addHelpText(
      'after',
      '\nIt shows the snapshots of this moment. Write it again at least as often as SNAPSHOT_KEEP says.',
    )
    .action(async ({ output }: { output?: string }) => {
      const sources = await latestSources(await lakesOf(environment))
      const path = resolve(
        output ?? join(readSettings({ ...environment, COMPANY: undefined }).dataDir, 'catalog.duckdb'),
      )
      // Whoever reads the one before goes on with it.
      const temporary = `${path}.${process.pid}.part`
      try {
        await rm(temporary, { force: true })
        const db = await Database.open(':memory:', { threads: 1 })
        await writeCatalog(db, temporary, sources).finally(() => db.close())
        await rename(temporary, path)
        await syncPath(join(path, '..'))
      } catch (error) {
        await rm(temporary, { force: true }).catch(() => {})
        if (error instanceof FatalError) throw error
        throw new FatalError(
          `${path} cannot be written: ${messageOf(error)}. Name another file with --output.`,
          EXIT.usage,
        )
      }
      process.stdout.write(`${path}: ${sources.map(({ company }) => company).join(', ')}\n`)
    })
}
