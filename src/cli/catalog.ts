import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Command } from 'commander'
import type { LakeSettings } from '#config/lake.ts'
import { type Environment, readCommonSettings } from '#config/settings.ts'
import { openToReaders } from '#src/core/lake/access.ts'
import { writeCatalog } from '#src/core/lake/catalog.ts'
import { readLatestSources } from '#src/core/lake/read.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { giveToGroup } from '#src/lib/access.ts'
import { writeBeside } from '#src/lib/durable.ts'
import { loadMarts } from '#src/marts/open.ts'
import { listLakes } from './snapshot_sql.ts'

export function createCatalogCommand(environment: Environment): Command {
  return new Command('catalog')
    .description(
      'Write one catalog of the latest snapshots of all configured companies, for other DuckDB clients.',
    )
    .option('--output <file>', 'file to write, instead of DATA_DIR/catalog.duckdb')
    .addHelpText(
      'after',
      '\nIt shows the latest snapshots at the time it is written. Write it again at least once per SNAPSHOT_KEEP.',
    )
    .action(async ({ output }: { output?: string }) => {
      const sources = await readLatestSources(await listLakes(environment))
      const { dataDir, lake } = readCommonSettings(environment)
      const path = resolve(output ?? join(dataDir, 'catalog.duckdb'))
      await writeBeside(path, 'Name another file with --output.', async temporary => {
        const marts = await loadMarts()
        const db = await Database.open(':memory:', { threads: 1 })
        await writeCatalog(db, temporary, sources, marts).finally(() => db.close())
        await openForReaders(temporary, lake)
      })
      process.stdout.write(`${path}: ${sources.map(({ company }) => company).join(', ')}\n`)
    })
}

/** Gives the catalog the lakes' access rights, from the settings that apply to all companies. */
async function openForReaders(path: string, { mode, group }: LakeSettings): Promise<void> {
  const own = await stat(path)
  if (group !== null) giveToGroup(path, group)
  openToReaders(path, { mode: mode ?? own.mode, group: group ?? own.gid })
}
