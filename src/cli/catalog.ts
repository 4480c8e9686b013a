import { mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Command } from 'commander'
import type { LakeSettings } from '#config/lake.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { giveToGroup } from '#src/platform/access.ts'
import { syncPath } from '#src/platform/durable.ts'
import { EXIT, FatalError, messageOf } from '#src/platform/errors.ts'
import { openToReaders } from '#src/store/lake/access.ts'
import { writeCatalog } from '#src/store/lake/catalog.ts'
import { latestSources } from '#src/store/lake/read.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { lakesOf } from './query.ts'

export function catalogCommand(environment: Environment): Command {
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
      const sources = await latestSources(await lakesOf(environment))
      const { dataDir, lake } = readSettings({ ...environment, COMPANY: undefined })
      const path = resolve(output ?? join(dataDir, 'catalog.duckdb'))
      await writeBeside(path, async temporary => {
        const db = await Database.open(':memory:', { threads: 1 })
        await writeCatalog(db, temporary, sources).finally(() => db.close())
        await openForReaders(temporary, lake)
      })
      process.stdout.write(`${path}: ${sources.map(({ company }) => company).join(', ')}\n`)
    })
}

/** Readers of the old file keep it; the new file appears only when it is complete. */
async function writeBeside(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
  let place: string | null = null
  try {
    place = await mkdtemp(join(dirname(path), '.catalog-'))
    const temporary = join(place, 'catalog.duckdb')
    await write(temporary)
    await rename(temporary, path)
    await syncPath(dirname(path))
  } catch (error) {
    if (error instanceof FatalError) throw error
    throw new FatalError(
      `${path} cannot be written: ${messageOf(error)}. Name another file with --output.`,
      EXIT.usage,
    )
  } finally {
    if (place !== null) await rm(place, { recursive: true, force: true }).catch(() => {})
  }
}

/** Gives the catalog the lakes' access rights, from the settings that apply to all companies. */
async function openForReaders(path: string, { mode, group }: LakeSettings): Promise<void> {
  const own = await stat(path)
  if (group !== null) giveToGroup(path, group)
  await openToReaders(path, { mode: mode ?? own.mode, group: group ?? own.gid })
}
