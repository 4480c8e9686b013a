import { randomUUID } from 'node:crypto'
import type { Installation, Routes } from './routes.ts'
import { Refusal, type State } from './state.ts'

const SETTINGS = ['anon-tracking-enabled', 'report-timezone', 'custom-formatting']

/** Setup, sessions, API keys and settings. */
export function userRoutes({ state, nextId, violated }: Installation): Routes {
  return {
    'GET /api/session/properties': () => ({
      'has-user-setup': state.user !== null,
      'setup-token': state.setupToken,
      version: { tag: 'v0.63.1' },
    }),
    'POST /api/setup': ({ body }) => {
      if (state.user)
        throw new Refusal(403, 'The /api/setup route can only be used to create the first user.')
      if (body.token !== state.setupToken) throw violated('POST /api/setup', 'Token does not match')
      state.user = body.user as State['user']
      state.setupToken = null
      state.settings.set('anon-tracking-enabled', true)
      return login(state)
    },
    'POST /api/session': ({ body }) => {
      if (body.username !== state.user?.email || body.password !== state.user?.password) {
        throw new Refusal(401, { errors: { password: 'did not match stored password' } })
      }
      return login(state)
    },
    'DELETE /api/session': ({ headers }) => {
      state.sessions.delete(String(headers['x-metabase-session']))
    },
    'GET /api/user/current': ({ headers }) => ({
      id: 1,
      is_superuser: state.apiKeys.find(({ key }) => key === headers['x-api-key'])?.admin ?? true,
    }),
    'GET /api/permissions/group': () => [
      { id: 1, name: 'All Users', magic_group_type: 'all-internal-users', member_count: 1 },
      { id: 2, name: 'Administrators', magic_group_type: 'admin', member_count: 1 },
    ],
    'GET /api/api-key': () => state.apiKeys.map(({ id, name }) => ({ id, name, masked_key: 'mb_****' })),
    'POST /api/api-key': ({ body: { name, group_id } }) => {
      if (state.apiKeys.some(key => key.name === name)) throw violated('POST /api/api-key', 'name is taken')
      const made = { id: nextId(), name: String(name), key: `mb_${randomUUID()}`, admin: group_id === 2 }
      state.apiKeys.push(made)
      return { id: made.id, name, unmasked_key: made.key, masked_key: 'mb_****' }
    },
    'GET /api/setting': () =>
      SETTINGS.map(key => ({
        key,
        value: state.settings.get(key) ?? null,
        is_env_setting: false,
        env_name: '',
        default: null,
      })),
    'PUT /api/setting/:key': ({ body: { value }, path }) => {
      state.settings.set(path.slice('/api/setting/'.length), value)
    },
  }
}

function login({ sessions }: State): { id: string } {
  const id = randomUUID()
  sessions.add(id)
  return { id }
}
