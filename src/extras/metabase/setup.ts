import { access, constants, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { openNew, syncPath } from '#src/lib/durable.ts'
import { EXIT, FatalError, systemCode } from '#src/lib/errors.ts'
import type { MetabaseSetting, Properties } from './answers.ts'
import type { Metabase } from './client.ts'

const KEY_NAME = 'editais-sync'

export type Access = {
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
 * @returns what was changed.
 * @throws FatalError that names what is missing.
 */
export async function becomeAdmin(client: Metabase, access: Access): Promise<string[]> {
  const properties = await client.get<Properties>('/api/session/properties')
  if (access.apiKey) {
    client.identify({ apiKey: access.apiKey })
    await checkAdmin(client)
    return []
  }
  const { apiKeyFile, adminEmail, adminPassword } = access
  if (!apiKeyFile || !adminEmail || !adminPassword) throw noAccess(access)
  await checkWritable(apiKeyFile)
  const steps: string[] = []
  if (properties['has-user-setup']) {
    const { id } = await client.post<{ id: string }>('/api/session', {
      username: adminEmail,
      password: adminPassword,
    })
    client.identify({ session: id })
  } else {
    await makeFirstUser(client, properties, { email: adminEmail, password: adminPassword })
    steps.push(`created the first user, ${adminEmail}`)
  }
  const apiKey = await makeKey(client, apiKeyFile)
  await client.delete('/api/session')
  client.identify({ apiKey })
  return [...steps, `created the API key "${KEY_NAME}" and wrote it to ${apiKeyFile}`]
}

async function checkAdmin(client: Metabase): Promise<void> {
  const user = await client.get<{ is_superuser?: boolean }>('/api/user/current')
  if (user.is_superuser) return
  throw new FatalError(
    `The API key of METABASE_API_KEY_FILE may not administer Metabase at ${client.url}. Put it into the group Administrators (Admin, Authentication, API keys).`,
  )
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
): Promise<void> {
  const { id } = await client.post<{ id: string }>('/api/setup', {
    token: properties['setup-token'],
    user: { email, password, first_name: 'Administração', last_name: null },
    prefs: { site_name: 'Editais', site_locale: 'pt_BR', allow_tracking: false },
  })
  client.identify({ session: id })
  // The setup enables tracking despite `allow_tracking`; a value from Metabase's environment cannot be changed.
  const settings = await client.get<MetabaseSetting[]>('/api/setting')
  const tracking = settings.find(({ key }) => key === 'anon-tracking-enabled')
  if (tracking && !tracking.is_env_setting) {
    await client.put('/api/setting/anon-tracking-enabled', { value: false })
  }
}

type Group = { readonly id: number; readonly name: string; readonly magic_group_type?: string | null }

async function makeKey(client: Metabase, path: string): Promise<string> {
  const groups = await client.get<Group[]>('/api/permissions/group')
  const admins =
    groups.find(group => group.magic_group_type === 'admin') ??
    groups.find(({ name }) => name === 'Administrators')
  if (!admins) throw new FatalError('Metabase shows no group Administrators. Is this user one of them?')
  const keys = await client.get<{ name: string }[]>('/api/api-key')
  if (keys.some(({ name }) => name === KEY_NAME)) {
    throw new FatalError(
      `Metabase already has an API key "${KEY_NAME}", and does not show its value again. Put the key into ${path}, or delete it in Metabase (Admin, Authentication, API keys) and run this again.`,
    )
  }
  const { unmasked_key: key } = await client.post<{ unmasked_key: string }>('/api/api-key', {
    name: KEY_NAME,
    group_id: admins.id,
  })
  await writeSecret(path, key)
  return key
}

/** Throws FatalError (usage) unless the file can be written. Called before the key is created: Metabase shows it only once. */
async function checkWritable(path: string): Promise<void> {
  try {
    await access(dirname(path), constants.W_OK)
  } catch (error) {
    throw new FatalError(
      `${path} cannot be written (${systemCode(error)}). Set METABASE_API_KEY_FILE to a file in a directory that this user may write.`,
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
