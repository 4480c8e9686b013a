import { basename, dirname, posix } from 'node:path'
import type { MetabaseTarget } from '#config/settings.ts'
import type { MetabaseDatabase } from './answers.ts'
import type { Metabase } from './client.ts'
import { companyOfMark } from './mark.ts'

export type Resources = Pick<MetabaseTarget, 'memoryMb' | 'spillDirectory'>

/** The driver writes it as "a=b&c=d", and its values win over the driver's own. */
const OPTIONS = 'additional-options'
const SPILL = ['temp_directory', 'max_temp_directory_size']
const READABLE = 'allowed_directories'

/** Maximum that a database may spill: a query that needs more fails, before it fills a disk that others use, too. */
const MAX_SPILL = '4GB'
/** DuckDB would otherwise read and write, for anyone who may write SQL, every file that Metabase's user can. */
const LOCK = 'SET enable_external_access = false;'

/**
 * Returns the details by which DuckDB, inside of Metabase, reads the lake and nothing else, stays within its memory, and has a
 * directory for what does not fit. Other details that users changed stay, and so does their own `enable_external_access`.
 * @param database without an id if it does not exist yet.
 */
export async function resourceDetails(
  client: Metabase,
  database: Pick<MetabaseDatabase, 'details'> & { readonly id?: number },
  catalogPath: string,
  { memoryMb, spillDirectory }: Resources,
): Promise<Record<string, string>> {
  const given = textOf(database.details?.[OPTIONS])
  const init = textOf(database.details?.init_sql).trimEnd()
  const lake = dirname(dirname(dirname(catalogPath)))
  // Options are separated by `&`.
  const isDecided = lake.includes('&') || /enable_external_access/i.test(init)
  const isLocked = !isDecided || init.includes(LOCK)
  const options = [
    ...(isLocked ? [`${READABLE}=['${lake.replaceAll("'", "''")}/']`] : []),
    ...(spillDirectory === null ? [] : spillOf(catalogPath, spillDirectory)),
  ]
  const own = new Set(options.map(nameOf))
  const others = given.split('&').filter(option => option !== '' && !own.has(nameOf(option)))
  return {
    ...(memoryMb === null ? {} : { memory_limit: await shareOf(memoryMb, client, database) }),
    ...(isDecided
      ? {}
      : { init_sql: `${init}${init === '' || init.endsWith(';') ? '' : ';'} ${LOCK}`.trim() }),
    [OPTIONS]: [...others, ...options].join('&'),
  }
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : '')
const nameOf = (option: string) => option.split('=', 1)[0]

/** Returns the memory for one company's database: those of all companies may be in use at once. */
async function shareOf(
  memoryMb: number,
  client: Metabase,
  { id }: { readonly id?: number },
): Promise<string> {
  const { data } = await client.get<{ data: readonly MetabaseDatabase[] }>('/api/database')
  const others = data.filter(other => other.id !== id && companyOfMark(other.description) !== null)
  return `${Math.floor(memoryMb / (others.length + 1))}MB`
}

/**
 * Returns the options for a directory of each catalog: the names of DuckDB's files are the same in each database, and for some
 * time Metabase has both the old and the new catalog open.
 */
function spillOf(catalogPath: string, directory: string): string[] {
  const snapshot = dirname(catalogPath)
  const company = basename(dirname(dirname(dirname(snapshot))))
  const [place, size] = SPILL
  return [`${place}=${posix.join(directory, `${company}-${basename(snapshot)}`)}`, `${size}=${MAX_SPILL}`]
}
