import { basename, dirname, posix } from 'node:path'
import type { MetabaseTarget } from '#config/settings.ts'
import type { MetabaseDatabase } from './answers.ts'
import type { Metabase } from './client.ts'
import { companyOfMark } from './mark.ts'

export type Resources = Pick<MetabaseTarget, 'memoryMb' | 'spillDirectory'>

/** The driver writes it as "a=b&c=d", and its values win over the driver's own. */
const OPTIONS = 'additional-options'
const OURS = new Set(['temp_directory', 'max_temp_directory_size'])

/** Maximum that a database may spill: a query that needs more fails, before it fills a disk that others use, too. */
const MAX_SPILL = '4GB'

/**
 * Returns the details by which DuckDB, inside of Metabase, stays within its memory and has a directory for what does not fit.
 * Empty without settings: details that users changed stay.
 */
export async function resourceDetails(
  client: Metabase,
  database: MetabaseDatabase,
  catalogPath: string,
  { memoryMb, spillDirectory }: Resources,
): Promise<Record<string, string>> {
  return {
    ...(memoryMb === null ? {} : { memory_limit: await shareOf(memoryMb, client, database) }),
    ...(spillDirectory === null ? {} : { [OPTIONS]: withSpill(database, catalogPath, spillDirectory) }),
  }
}

/** Returns the memory for one company's database: those of all companies may be in use at once. */
async function shareOf(memoryMb: number, client: Metabase, { id }: MetabaseDatabase): Promise<string> {
  const { data } = await client.get<{ data: readonly MetabaseDatabase[] }>('/api/database')
  const others = data.filter(other => other.id !== id && companyOfMark(other.description) !== null)
  return `${Math.floor(memoryMb / (others.length + 1))}MB`
}

/**
 * Returns the options of a database with a directory for each catalog: the names of DuckDB's files are the same in each database,
 * and for some time Metabase has both the old and the new catalog open.
 */
function withSpill({ details }: MetabaseDatabase, catalogPath: string, directory: string): string {
  const given = details?.[OPTIONS]
  const others = (typeof given === 'string' ? given.split('&') : []).filter(
    option => option !== '' && !OURS.has(option.split('=', 1)[0] as string),
  )
  const snapshot = dirname(catalogPath)
  const company = basename(dirname(dirname(dirname(snapshot))))
  const own = posix.join(directory, `${company}-${basename(snapshot)}`)
  return [...others, `temp_directory=${own}`, `max_temp_directory_size=${MAX_SPILL}`].join('&')
}
