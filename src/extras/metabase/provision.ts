import { access, constants, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { TrinoTarget } from '#config/lake.ts'
import { pluralize } from '#src/lib/count.ts'
import { openNew, syncPath } from '#src/lib/durable.ts'
import { EXIT, FatalError, findSystemCode } from '#src/lib/errors.ts'
import {
  type Metabase,
  type MetabaseDatabase,
  MetabaseError,
  type MetabaseSetting,
  type Properties,
} from './client.ts'
import { buildDashboards } from './dashboards.ts'
import {
  addCompanyName,
  createDatabase,
  describeDatabase,
  findDatabase,
  isClosed,
  listWaysToRecognize,
  noAdministrator,
  pointDatabase,
  type Resources,
} from './database.ts'
import { covers, isMarked, MARK, mark, removeMark } from './mark.ts'
import { describeTables, type MetabasePatience } from './metadata.ts'

export type ProvisionRequest = MetabasePatience & {
  readonly client: Metabase
  readonly access: Access
  readonly company: string
  /** Path of the latest snapshot, absolute and resolved: the link `latest` moves, Metabase's connections do not. */
  readonly catalogPath: string
  readonly sourceTimezone: string
  readonly resources: Resources
  /** Null leaves a connection to Trino as it is. */
  readonly trino: TrinoTarget | null
  readonly onStep?: (step: string) => void
  /** Called with each change once it is made: a later one may fail. */
  readonly onChange?: (change: string) => void
  /** Called with the database and the catalogs that it may read, once they are known: from then on they must be kept. */
  readonly onRead?: (databaseId: number, catalogs: readonly string[]) => Promise<void>
}

export type Provisioned = {
  readonly databaseId: number
  /** Id of the connection to Trino; null without --trino. */
  readonly trinoDatabaseId: number | null
  readonly metabaseVersion: string | null
  /** The changes, one sentence each; empty if there were none. */
  readonly changes: readonly string[]
  /** The problems that need a person's attention. */
  readonly warnings: readonly string[]
  readonly dashboards: readonly { readonly name: string; readonly url: string }[]
}

/**
 * Sets up Metabase for a company's data: first user and API key, database on the latest catalog, Portuguese names,
 * semantic types and foreign keys, report time zone, dashboards. Does only what is missing: a second run changes
 * nothing, and finishes a first one that was interrupted anywhere.
 * @throws FatalError, mostly MetabaseError, and InterruptedError.
 */
export async function provision(request: ProvisionRequest): Promise<Provisioned> {
  const { client, company, onStep = () => {}, onChange = () => {}, onRead = async () => {} } = request
  const changes: string[] = []
  const did = (what: string) => {
    changes.push(what)
    onChange(what)
  }
  const didEach = (count: number, one: string, how: string) => {
    if (count > 0) did(`${pluralize(count, one)} ${how}`)
  }
  onStep('logging in')
  const user = await becomeAdmin(client, request.access, did)
  const { version } = await client.get<Properties>('/api/session/properties')

  onStep('settings')
  const warnings = await settle(client, request.sourceTimezone, did)

  onStep('database')
  const found = await findDatabase(client, 'duckdb', listWaysToRecognize(company, request.catalogPath))
  const database = found ?? (await createDatabase(client, company, request.catalogPath, request.resources))
  if (!found) {
    did(`added the database "${database.name}" (${database.id})`)
    await onRead(database.id, [request.catalogPath])
  }
  const { moved } = await pointDatabase({
    client,
    databaseId: database.id,
    company,
    catalogPath: request.catalogPath,
    columnsChanged: false,
    resources: request.resources,
    onRead: catalogs => onRead(database.id, catalogs),
  })
  if (moved) did(`pointed the database to ${request.catalogPath}`)
  // Only now: what it reads tells that it is ours, and until now perhaps only an earlier version's mark did.
  await describeDatabase(client, database)

  onStep('names and types')
  const described = await describeTables(client, database.id, {
    ...request,
    justMade: !found,
    schema: 'main',
  })
  didEach(described.tables, 'table', 'described')
  didEach(described.fields, 'column', 'described')

  onStep('dashboards')
  const { cards, dashboards, shown } = await buildDashboards({
    client,
    databaseId: database.id,
    company,
    user,
  })
  didEach(cards.made, 'card', 'created')
  didEach(cards.changed, 'card', 'repaired')
  didEach(dashboards.made, 'dashboard', 'created')
  didEach(dashboards.changed, 'dashboard', 'repaired')

  const trino = await setUpTrino(request)
  trino.changes.forEach(did)
  return {
    databaseId: database.id,
    trinoDatabaseId: trino.databaseId,
    metabaseVersion: version?.tag ?? null,
    changes,
    warnings: [
      ...warnings,
      ...(await openness(client, database.id)),
      ...unread(described.missing, 'the catalog'),
      ...trino.warnings,
    ],
    dashboards: shown,
  }
}

/** Returns a warning if people who may write SQL can read more than the lake. */
async function openness(client: Metabase, databaseId: number): Promise<string[]> {
  if (isClosed(await client.get<MetabaseDatabase>(`/api/database/${databaseId}`))) return []
  return [
    'People who may write SQL in Metabase can read and write the files of its process. The next snapshot closes the database, unless it has an Init SQL of your own, or the path of the data directory has & or =: docs/operating/metabase.md.',
  ]
}

type TrinoSetUp = {
  readonly databaseId: number | null
  readonly changes: readonly string[]
  readonly warnings: readonly string[]
}

/** Connects Trino, as the last step: without it, everything else works. A Trino that Metabase cannot use is a warning. */
async function setUpTrino(request: ProvisionRequest): Promise<TrinoSetUp> {
  const { client, company, trino, onStep = () => {} } = request
  if (trino === null) return { databaseId: null, changes: [], warnings: [] }
  onStep('Trino')
  try {
    const { id, name, change } = await connectTrino(client, company, trino)
    const { tables, fields, missing } = await describeTables(client, id, {
      ...request,
      justMade: change === 'made',
      schema: trino.schema,
    })
    const changes = [
      ...(change === 'made' ? [`added the database "${name}" (${id})`] : []),
      ...(change === 'repaired' ? [`repaired the database "${name}" (${id})`] : []),
      ...(tables > 0 ? [`${pluralize(tables, 'table')} described in Trino`] : []),
      ...(fields > 0 ? [`${pluralize(fields, 'column')} described in Trino`] : []),
    ]
    return { databaseId: id, changes, warnings: unread(missing, `Trino (schema ${trino.schema})`) }
  } catch (error) {
    if (!(error instanceof MetabaseError && error.trouble === 'rejected')) throw error
    const what = 'Metabase has no connection to Trino, or cannot use it. Check --trino.'
    return { databaseId: null, changes: [], warnings: [`${what} ${error.message}`] }
  }
}

/** How Brazilians write numbers and dates; the values are those of Metabase's formatting settings. */
const FORMATTING = {
  'type/Number': { number_separators: ',.' },
  'type/Currency': { currency: 'BRL', currency_style: 'symbol' },
  'type/Temporal': { date_style: 'D/M/YYYY', date_separator: '/', time_style: 'HH:mm' },
}

/** Sets global settings of Metabase that are unset: other users may depend on the others. @returns warnings. */
async function settle(
  client: Metabase,
  timezone: string,
  did: (what: string) => void,
): Promise<readonly string[]> {
  const settings = new Map(
    (await client.get<MetabaseSetting[]>('/api/setting')).map(setting => [setting.key, setting]),
  )
  const zone = settings.get('report-timezone')
  for (const [key, value, what] of [
    ['report-timezone', timezone, `the report time zone to ${timezone}`],
    ['start-of-week', 'monday', 'the start of the week to Monday'],
    ['custom-formatting', FORMATTING, 'the formats of numbers, money and dates'],
  ] as const)
    if (!isSet(settings.get(key))) {
      await client.put(`/api/setting/${key}`, { value })
      did(`set ${what}`)
    }
  return isSet(zone) && zone?.value !== timezone && !zone?.is_env_setting
    ? [
        `Metabase's report time zone is ${zone?.value}, not ${timezone} (SOURCE_TIMEZONE). It was not changed. Columns named "local" do not depend on it.`,
      ]
    : []
}

/** Returns whether a value was set; one that comes from Metabase's environment cannot be changed anyway. */
function isSet(setting: MetabaseSetting | undefined): boolean {
  if (!setting || setting.is_env_setting) return true
  const { value } = setting
  if (value === null || value === undefined || value === '') return false
  return typeof value !== 'object' || Object.keys(value).length > 0
}

function unread(missing: readonly string[], from: string): string[] {
  if (missing.length === 0) return []
  const some = missing.slice(0, 5).join(', ')
  const more = missing.length > 5 ? ` and ${missing.length - 5} more` : ''
  return [
    `Metabase has not read ${some}${more} from ${from} yet. Run this again in a few minutes to set their names.`,
  ]
}

const KEY_NAME = 'editais-sync'

type Access = {
  readonly apiKey: string | null
  /** The file of the key, written if it is not there. */
  readonly apiKeyFile: string | null
  /** Needed only until there is a key. */
  readonly adminEmail: string | null
  readonly adminPassword: string | null
}

/**
 * Gives the client an administrator's identity. If there is no API key yet, creates the first user (if Metabase has
 * none) or logs in as the given one, creates a key, and writes it to `apiKeyFile` for all later runs.
 * @returns the id of the key's user.
 * @throws FatalError that names what is missing.
 */
async function becomeAdmin(client: Metabase, access: Access, did: (what: string) => void): Promise<number> {
  const properties = await client.get<Properties>('/api/session/properties')
  if (access.apiKey) {
    client.identify({ apiKey: access.apiKey })
    return await userOfKey(client)
  }
  const { apiKeyFile, adminEmail, adminPassword } = access
  if (!apiKeyFile || !adminEmail || !adminPassword) throw noAccess(access)
  await checkWritable(apiKeyFile)
  if (properties['has-user-setup']) {
    const { id } = await client.post<{ id: string }>('/api/session', {
      username: adminEmail,
      password: adminPassword,
    })
    client.identify({ session: id })
  } else {
    const who = { email: adminEmail, password: adminPassword }
    await makeFirstUser(client, properties, who, () => did(`created the first user, ${adminEmail}`))
  }
  const apiKey = await makeKey(client, () => did(`created the API key "${KEY_NAME}"`))
  await writeSecret(apiKeyFile, apiKey)
  did(`wrote it to ${apiKeyFile}`)
  await client.delete('/api/session')
  client.identify({ apiKey })
  return await userOfKey(client)
}

/** Returns the id of the user that Metabase has for the key. @throws FatalError if the key is no administrator's. */
async function userOfKey(client: Metabase): Promise<number> {
  const user = await client.get<{ id: number; is_superuser?: boolean }>('/api/user/current')
  if (user.is_superuser) return user.id
  throw new FatalError(noAdministrator(client))
}

function noAccess({ apiKeyFile }: Access): FatalError {
  return new FatalError(
    apiKeyFile
      ? `There is no API key in METABASE_API_KEY_FILE (${apiKeyFile}). Put one there (Metabase: Admin, Authentication, API keys, group Administrators), or give this command --admin and --admin-password-file, and it creates the key.`
      : 'METABASE_API_KEY_FILE is not set. Set it to the file that holds the API key, or will hold it.',
    EXIT.usage,
  )
}

async function makeFirstUser(
  client: Metabase,
  properties: Properties,
  { email, password }: { email: string; password: string },
  onMade: () => void,
): Promise<void> {
  const { id } = await client.post<{ id: string }>('/api/setup', {
    token: properties['setup-token'],
    user: { email, password, first_name: 'Administração', last_name: null },
    prefs: { site_name: 'Editais', site_locale: 'pt_BR', allow_tracking: false },
  })
  client.identify({ session: id })
  onMade()
  // The setup enables tracking despite `allow_tracking`; a value from Metabase's environment cannot be changed.
  const settings = await client.get<MetabaseSetting[]>('/api/setting')
  const tracking = settings.find(({ key }) => key === 'anon-tracking-enabled')
  if (tracking && !tracking.is_env_setting) {
    await client.put('/api/setting/anon-tracking-enabled', { value: false })
  }
}

type Group = { readonly id: number; readonly name: string; readonly magic_group_type?: string | null }

async function makeKey(client: Metabase, onMade: () => void): Promise<string> {
  const groups = await client.get<Group[]>('/api/permissions/group')
  const admins =
    groups.find(group => group.magic_group_type === 'admin') ??
    groups.find(({ name }) => name === 'Administrators')
  if (!admins) throw new FatalError('Metabase shows no group Administrators. Is this user one of them?')
  const keys = await client.get<{ name: string }[]>('/api/api-key')
  if (keys.some(({ name }) => name === KEY_NAME)) {
    throw new FatalError(
      `Metabase already has an API key "${KEY_NAME}", and does not show its value again. Put the key into the file of METABASE_API_KEY_FILE, or delete it in Metabase (Admin, Authentication, API keys) and run this again.`,
    )
  }
  const { unmasked_key: key } = await client.post<{ unmasked_key: string }>('/api/api-key', {
    name: KEY_NAME,
    group_id: admins.id,
  })
  onMade()
  return key
}

/** Throws FatalError (usage) unless the file can be written. Called before the key is created: Metabase shows it only once. */
async function checkWritable(path: string): Promise<void> {
  try {
    await access(dirname(path), constants.W_OK)
  } catch (error) {
    throw new FatalError(
      `${path} cannot be written (${findSystemCode(error)}). Set METABASE_API_KEY_FILE to a file in a directory that this user may write.`,
      EXIT.usage,
    )
  }
}

/** Writes a secret atomically, readable only by its owner. */
async function writeSecret(path: string, secret: string): Promise<void> {
  const temporary = `${path}.part`
  const file = await openNew(temporary)
  try {
    await file.writeFile(`${secret}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
  await syncPath(dirname(path))
}

/** Metabase's driver for Trino. */
const TRINO_ENGINE = 'starburst'
const TRINO_KEY = 'trino'
/** Trino needs a name. If it also needs a password, both are set in Metabase and stay. */
const TRINO_USER = 'metabase'
const TRINO_TEXT = 'Editais acompanhados e suas análises, no armazém de objetos, consultados pelo Trino.'

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
async function connectTrino(client: Metabase, company: string, address: TrinoTarget): Promise<Connected> {
  const wanted = { ...address, [MARK]: mark(company, TRINO_KEY) }
  const found = await findDatabase(client, TRINO_ENGINE, [
    one => isMarked(one, company, TRINO_KEY),
    one => covers(one.details, address),
  ])
  const { id, name, details, cache_ttl, ...before } =
    found ??
    (await client.post<MetabaseDatabase>('/api/database', {
      name: addCompanyName('Editais no Trino', company),
      engine: TRINO_ENGINE,
      details: { ...wanted, user: TRINO_USER },
    }))
  // Only a connection that exists can have a description.
  const description = removeMark(before.description) ?? TRINO_TEXT
  if (covers({ ...before, details }, { description, details: wanted })) return { id, name, change: null }
  await client.put(`/api/database/${id}`, {
    description,
    // Sends all details, so that the user and other settings stay.
    details: { ...details, ...wanted },
    // Paid editions clear it if it is missing.
    cache_ttl: cache_ttl ?? null,
  })
  return { id, name, change: found ? 'repaired' : 'made' }
}
