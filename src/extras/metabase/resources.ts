import { basename, dirname, posix } from 'node:path'
import type { MetabaseTarget } from '#config/settings.ts'
import type { MetabaseDatabase } from './answers.ts'
import type { Metabase } from './client.ts'
import { companyOfMark } from './mark.ts'

export type Resources = Pick<MetabaseTarget, 'memoryMb' | 'spillDirectory'>

/** The driver writes it as "a=b&c=d", and its values win over the driver's own. */
const OPTIONS = 'additional-options'
const SPILL = ['temp_directory', 'max_temp_directory_size'] as const

/** Maximum that a database may spill: a query that needs more fails, before it fills a disk that others use, too. */
const MAX_SPILL = '4GB'
/** A catalog needs only built-in extensions, and nothing from the network. */
const OPEN = 'SET autoinstall_known_extensions = false; SET autoload_known_extensions = false;'
/** Without it, who may write SQL reads and writes every file that Metabase's user can. The driver runs it on each connection. */
const CLOSED = `${OPEN} SET enable_external_access = false;`

/**
 * Returns the details by which DuckDB, inside of Metabase, opens no file outside of the lake, stays within its memory, and has a
 * directory for what does not fit. SQL of a user in `init_sql` stays: DuckDB refuses some of it once it is closed.
 * @param database without an id if it does not exist yet.
 */
export async function databaseDetails(
  client: Metabase,
  database: Pick<MetabaseDatabase, 'details'> & { readonly id?: number },
  catalogPath: string,
  { memoryMb, spillDirectory }: Resources,
): Promise<Record<string, string>> {
  const { [OPTIONS]: given, init_sql: init = OPEN } = database.details ?? {}
  const lake = dirname(dirname(dirname(catalogPath)))
  const closes = [OPEN, CLOSED].includes(String(init)) && !UNSPEAKABLE.test(lake)
  const options = [
    // DuckDB reads the text as a list, in which a quote has a backslash before it.
    ...(closes ? [`allowed_directories=['${lake.replaceAll(/[\\']/g, '\\$&')}/']`] : []),
    ...(spillDirectory === null ? [] : spillOf(catalogPath, spillDirectory)),
  ]
  const own = new Set(options.map(nameOf))
  const others = typeof given === 'string' ? given.split('&').filter(option => option !== '') : []
  const all = [...others.filter(option => !own.has(nameOf(option))), ...options]
  return {
    ...(memoryMb === null ? {} : { memory_limit: await shareOf(memoryMb, client, database) }),
    ...(closes ? { init_sql: CLOSED } : {}),
    ...(all.length === 0 ? {} : { [OPTIONS]: all.join('&') }),
  }
}

/** The signs that separate options. */
const UNSPEAKABLE = /[&=]/

const nameOf = (option: string) => option.split('=', 1)[0]

/** Returns whether a database opens no file outside of the lake. */
export function isClosed({ details }: Pick<MetabaseDatabase, 'details'>): boolean {
  return details?.init_sql === CLOSED && String(details[OPTIONS]).includes('allowed_directories=')
}

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
