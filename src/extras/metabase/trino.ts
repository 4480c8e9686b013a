import type { TrinoTarget } from '#config/metabase_trino.ts'
import type { MetabaseDatabase } from './answers.ts'
import type { Metabase } from './client.ts'
import { covers } from './covers.ts'
import { titled } from './database.ts'
import { isMarked, marked } from './mark.ts'

/** Metabase's driver for Trino. */
const ENGINE = 'starburst'
const KEY = 'trino'
/** Trino needs a name. If it also needs a password, both are set in Metabase and stay. */
const USER = 'metabase'

type Connected = {
  readonly id: number
  readonly name: string
  readonly change: 'made' | 'repaired' | null
}

/**
 * Connects Metabase to a company's tables in Trino: adds the connection, or repairs its address. Metabase asks Trino for the
 * catalog before it accepts one.
 * @throws FatalError, mostly MetabaseError.
 */
export async function connectTrino(
  client: Metabase,
  company: string,
  { host, port, ssl, catalog, schema }: TrinoTarget,
): Promise<Connected> {
  const wanted = { host, port, ssl, catalog, schema }
  const found = await findConnection(client, company, wanted)
  if (!found) {
    const details = { ...wanted, user: USER }
    const made = await client.post<MetabaseDatabase>('/api/database', {
      name: titled('Editais no Trino', company),
      engine: ENGINE,
      details,
    })
    await describe(client, company, made.id)
    return { id: made.id, name: made.name, change: 'made' }
  }
  const { id, name, description, details = {} } = found
  // A run that was cut short after it added the connection.
  const isOurs = isMarked(description, company, KEY)
  if (!isOurs) await describe(client, company, id)
  if (covers(details, wanted)) return { id, name, change: isOurs ? null : 'repaired' }
  await client.put(`/api/database/${id}`, {
    // Sends all details, so that the user and other settings stay.
    details: { ...details, ...wanted },
    // Paid editions clear it if it is missing.
    cache_ttl: found.cache_ttl ?? null,
  })
  return { id, name, change: 'repaired' }
}

async function findConnection(
  client: Metabase,
  company: string,
  wanted: TrinoTarget,
): Promise<MetabaseDatabase | null> {
  const { data } = await client.get<{ data: readonly MetabaseDatabase[] }>('/api/database')
  const found = data
    .filter(({ engine }) => engine === ENGINE)
    .filter(one => isMarked(one.description, company, KEY) || covers(one.details, wanted))
  return found.sort((a, b) => a.id - b.id)[0] ?? null
}

/** Sets the description, which is possible only once the database exists. */
async function describe(client: Metabase, company: string, id: number): Promise<void> {
  const text = 'Editais acompanhados e suas análises, no armazém de objetos, consultados pelo Trino.'
  await client.put(`/api/database/${id}`, { description: marked(text, company, KEY) })
}
