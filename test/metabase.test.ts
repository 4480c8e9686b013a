import { mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { validate } from 'dockerfile-utils'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { filtersOf, readCard } from '#src/present/metabase/cards.ts'
import { createMetabase, type Metabase } from '#src/present/metabase/client.ts'
import { mark } from '#src/present/metabase/mark.ts'
import type { Trouble } from '#src/present/metabase/metabase_error.ts'
import { pointDatabase } from '#src/present/metabase/point.ts'
import { type ProvisionRequest, provision } from '#src/present/metabase/provision.ts'
import { relationMeanings } from '#src/present/metabase/semantics.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { companyPaths } from '#src/store/company.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { syncHere } from './support/here.ts'
import { type StandIn, startMetabase } from './support/metabase.ts'
import { type Environment, settingsFor, temporaryDirectory } from './support/project.ts'
import { runShared } from './support/shared.ts'
import { KEY } from './support/synced.ts'

const ADMIN = { adminEmail: 'dados@example.com', adminPassword: 'segredo-da-casa-1' }
const CARDS = DASHBOARDS.flatMap(({ filters, cards }) => cards.map(card => ({ ...card, filters })))

/** A company with a snapshot that has future sessions. */
let environment: Environment
let lake: string
let catalogPath: string
/** Opened as the driver connects: with its details and the report time zone. */
let catalog: Database

beforeAll(async () => {
  const world = generateWorld({ seed: 7, company: 'acme', notices: 250, start: new Date() })
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
  const dataDir = await realpath(await mkdtemp(join(tmpdir(), 'editais-sync-test-')))
  environment = settingsFor({ url: sandbox.url, key: KEY, dataDir })
  await syncHere(environment)
  await sandbox.close()
  lake = companyPaths(dataDir, 'acme').lake
  catalogPath = join(await realpath(join(lake, 'latest')), 'catalog.duckdb')
  catalog = await Database.open(catalogPath, { readOnly: true, threads: 1 })
  await catalog.run(`SET old_implicit_casting = true; SET TimeZone = 'America/Sao_Paulo'`)
})

afterAll(async () => {
  catalog.close()
  await rm(environment.DATA_DIR ?? '', { recursive: true, force: true })
})

type Session = {
  readonly metabase: StandIn
  readonly keyFile: string
  /** Runs with a client of its own, as a command does. */
  run(more?: Partial<ProvisionRequest>): ReturnType<typeof provision>
}

async function newMetabase(): Promise<Session> {
  const metabase = await startMetabase()
  const keyFile = join(await temporaryDirectory(), 'metabase_api_key')
  return {
    metabase,
    keyFile,
    run: async more =>
      await provision({
        client: clientOf(metabase.url),
        databaseId: null,
        company: 'acme',
        lake,
        catalogPath,
        ...{
          sourceTimezone: 'America/Sao_Paulo',
          syncMs: 5000,
          pollMs: 5,
          signal: AbortSignal.timeout(60_000),
        },
        access: { apiKey: await keyIn(keyFile), apiKeyFile: keyFile, ...ADMIN },
        ...more,
      }),
  }
}

async function keyIn(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').then(
    text => text.trim(),
    () => null,
  )
}

function clientOf(url: string, apiKey: string | null = null, timeoutMs = 10_000): Metabase {
  const signal = new AbortController().signal
  const client = createMetabase({ url, apiKey, timeoutMs, signal, secrets: [ADMIN.adminPassword] })
  onTestFinished(() => client.close())
  return client
}

test('one run sets up a new Metabase, and a second changes nothing', async () => {
  const { metabase, keyFile, run } = await newMetabase()
  metabase.syncMs = 30
  const done = await run()
  expect(metabase.violations).toEqual([])
  expect(done.warnings).toEqual([])
  expect(done.metabaseVersion).toBe('v0.63.1')
  expect(done.dashboards.map(({ name }) => name)).toEqual([
    'Funil e carteira',
    'Agenda e pendências',
    'Riscos jurídicos',
  ])

  const { state } = metabase
  expect(state.user).toMatchObject({ email: ADMIN.adminEmail })
  expect([...state.sessions]).toEqual([])
  expect(await keyIn(keyFile)).toBe(state.apiKeys[0]?.key)
  expect((await stat(keyFile)).mode & 0o777).toBe(0o600)
  expect(state.settings.get('report-timezone')).toBe('America/Sao_Paulo')
  expect(state.settings.get('anon-tracking-enabled')).toBe(false)

  const database = state.databases.find(({ id }) => id === done.databaseId)
  expect(database).toMatchObject({ name: 'Editais (acme)', engine: 'duckdb' })
  expect(database?.details).toMatchObject({ database_file: catalogPath, read_only: true })

  const field = (table: string, name: string) =>
    state.tables.find(one => one.name === table)?.fields.find(one => one.name === name)
  const id = field('editais', 'edital_id')
  expect(id).toMatchObject({ semantic_type: 'type/PK', fk_target_field_id: null })
  expect(field('alerts', 'edital_id')).toMatchObject({ semantic_type: 'type/FK', fk_target_field_id: id?.id })
  expect(field('editais', 'valor_estimado')).toMatchObject({
    semantic_type: 'type/Currency',
    settings: { currency: 'BRL' },
    display_name: 'Valor estimado',
  })
  // Every table and column has its Portuguese description.
  for (const { name, label, description, columns } of relationMeanings()) {
    expect(state.tables.find(table => table.name === name)).toMatchObject({
      display_name: label,
      description,
    })
    for (const column of columns) {
      expect(field(name, column.name)).toMatchObject({ description: column.description })
    }
  }
  expect(state.cards).toHaveLength(CARDS.length)
  expect(state.dashboards.map(({ dashcards }) => (dashcards as unknown[]).length)).toEqual(
    DASHBOARDS.map(({ cards }) => cards.length),
  )

  metabase.writes()
  const again = await run()
  expect(metabase.writes()).toEqual([])
  expect(again).toMatchObject({ changes: [], warnings: [], databaseId: done.databaseId })
  expect(metabase.violations).toEqual([])
  const [last] = metabase.requests.slice(-1)
  expect(last?.headers).toMatchObject({ 'x-api-key': state.apiKeys[0]?.key })
})

test('a run keeps what others made, repairs our changed items and restores removed ones', async () => {
  const { metabase, run } = await newMetabase()
  const { databaseId } = await run()
  const { cards, dashboards, collections, settings } = metabase.state
  settings.set('report-timezone', 'UTC')
  const [ours] = cards as [(typeof cards)[number]]
  const collectionId = collections.at(-1)?.id
  // A card with the same name, a copy of ours, and a dashboard with the same name.
  const theirs = { ...ours, id: 9001, description: 'nossa', display: 'table' }
  const copy = { ...ours, id: 9002, name: 'Cópia' }
  const theirDashboard = {
    id: 9003,
    name: 'Funil e carteira',
    description: null,
    collection_id: collectionId,
    dashcards: [],
  }
  cards.push(theirs, copy)
  dashboards.push(theirDashboard)
  // Their card on our dashboard, in a tab.
  const [dashboard] = dashboards as [(typeof dashboards)[number]]
  const dashcards = dashboard.dashcards as Record<string, unknown>[]
  const added = { id: 9004, card_id: 9001, row: 90, col: 0, size_x: 4, size_y: 4, dashboard_tab_id: 5 }
  dashcards.push({ ...added, visualization_settings: { 'card.title': 'x' }, created_at: 'now' })
  Object.assign(dashboard, { tabs: [{ id: 5, name: 'Geral', position: 0 }] })
  for (const dashcard of dashcards) dashcard.dashboard_tab_id = 5
  const kept = structuredClone([theirs, copy, theirDashboard])
  // Our items, changed and removed.
  Object.assign(ours, { name: 'outro nome', display: 'table' })
  const removed = cards.splice(1, 1)[0]
  const shown = dashcards.findIndex(({ card_id: cardId }) => cardId === removed?.id)
  dashcards.splice(shown, 1)

  const done = await run({ databaseId })
  expect(metabase.violations).toEqual([])
  expect(done.changes).toEqual(['1 card created', '1 card repaired', '1 dashboard repaired'])
  expect(done.warnings).toEqual([expect.stringMatching(/time zone is UTC, not America\/Sao_Paulo/)])
  const own = CARDS[0] as (typeof CARDS)[number]
  expect(ours).toMatchObject({ name: (await readCard(own.key)).name, display: own.display })
  expect([theirs, copy, theirDashboard]).toEqual(kept)
  const after = dashboard.dashcards as Record<string, unknown>[]
  expect(after).toHaveLength((DASHBOARDS[0]?.cards.length ?? 0) + 1)
  expect(after.find(({ id }) => id === 9004)).toMatchObject(added)
  expect(after.every(({ dashboard_tab_id: tab }) => tab === 5)).toBe(true)
  const made = cards.find(({ description }) =>
    String(description).includes(mark('acme', CARDS[1]?.key ?? '')),
  )
  expect(after.some(({ card_id: cardId }) => cardId === made?.id)).toBe(true)

  metabase.writes()
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.writes()).toEqual([])
})

test('a run that was cut short anywhere is completed by the next', async () => {
  const { metabase, run } = await newMetabase()
  let left = 0
  metabase.intercept = (request, response) => {
    if (request.method === 'GET' || left > 0) {
      left -= request.method === 'GET' ? 0 : 1
      return false
    }
    response.destroy()
    return true
  }
  // No cut at the creation of the key: only a person can repair its loss.
  for (const after of [4, 3, 7, 40, 200, 300, 20, 12]) {
    left = after
    await run().catch(error => expect(error).toMatchObject({ trouble: 'unreachable' }))
  }
  metabase.intercept = () => false
  await run()
  const { state, violations } = metabase
  expect(violations).toEqual([])
  expect([state.databases, state.collections].map(those => those.length)).toEqual([2, 2])
  expect(state.cards).toHaveLength(CARDS.length)
  expect(state.dashboards).toHaveLength(DASHBOARDS.length)
  metabase.writes()
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.writes()).toEqual([])
})

test('a schema that Metabase has not read yet is requested, and described by a later run', async () => {
  const { metabase, run } = await newMetabase()
  metabase.syncMs = 100_000
  const done = await run({ syncMs: 20 })
  expect(done.warnings).toEqual([expect.stringMatching(/has not read editais,.* more from the catalog yet/)])
  expect(metabase.state.cards).toHaveLength(CARDS.length)
  metabase.syncMs = 0
  metabase.writes()
  expect(await run()).toMatchObject({ warnings: [] })
  expect(metabase.writes()[0]).toBe(`POST /api/database/${done.databaseId}/sync_schema`)
})

test('a database is moved only if it reads another catalog, and its schema is reread only on request', async () => {
  const { metabase, keyFile, run } = await newMetabase()
  const { databaseId } = await run()
  const client = clientOf(metabase.url, await keyIn(keyFile))
  const owner = { company: 'acme', lake }
  const point = (path: string, columnsChanged = false) =>
    pointDatabase({ client, databaseId, owner, catalogPath: path, columnsChanged })
  metabase.writes()

  expect(await point(catalogPath)).toEqual({ from: catalogPath, moved: false, synced: false })
  expect(metabase.writes()).toEqual([])
  // Another path to the same file: the path given to Metabase counts.
  const other = join(lake, 'latest', 'catalog.duckdb')
  expect(await point(other)).toEqual({ from: catalogPath, moved: true, synced: false })
  expect(await point(catalogPath, true)).toEqual({ from: other, moved: true, synced: true })
  expect(metabase.writes()).toEqual([
    `PUT /api/database/${databaseId}`,
    `PUT /api/database/${databaseId}`,
    `POST /api/database/${databaseId}/sync_schema`,
  ])
  const details = metabase.state.databases.at(-1)?.details
  expect(details).toMatchObject({ database_file: catalogPath, read_only: true, memory_limit: '1GB' })

  await expect(point('/nowhere/catalog.duckdb')).rejects.toMatchObject({ trouble: 'rejected' })
  expect(metabase.state.databases.at(-1)?.details).toEqual(details)
  await expect(
    pointDatabase({ client, databaseId: 77, owner, catalogPath, columnsChanged: false }),
  ).rejects.toThrow('has no database 77. Unset METABASE_DATABASE_ID')
  await expect(
    pointDatabase({ client, databaseId: 1, owner, catalogPath, columnsChanged: false }),
  ).rejects.toThrow('(Sample Database) is a h2 database, not DuckDB, and was not changed')
  const boreal = { company: 'boreal', lake }
  await expect(
    pointDatabase({ client, databaseId, owner: boreal, catalogPath, columnsChanged: false }),
  ).rejects.toThrow('shows company acme, and was not changed')
  expect(metabase.violations).toEqual([])
})

test('without permission a run explains what is missing, and changes nothing', async () => {
  const { metabase, keyFile, run } = await newMetabase()
  const none = { apiKey: null, apiKeyFile: keyFile, adminEmail: null, adminPassword: null }
  await expect(run({ access: none })).rejects.toThrow(
    /no API key in METABASE_API_KEY_FILE.*METABASE_ADMIN_EMAIL/,
  )
  await expect(run({ access: { ...none, apiKeyFile: null } })).rejects.toMatchObject({ exitCode: EXIT.usage })
  const nowhere = { ...none, ...ADMIN, apiKeyFile: '/nowhere/key' }
  await expect(run({ access: nowhere })).rejects.toThrow('/nowhere/key cannot be written (ENOENT)')
  expect(metabase.writes()).toEqual([])

  await run()
  const made = await keyIn(keyFile)
  metabase.writes()
  const wrong = { ...none, apiKey: 'mb_wrong_0123456789' }
  await expect(run({ access: wrong })).rejects.toThrow(/rejects the API key \(401\).*group Administrators/)
  metabase.state.apiKeys.push({ id: 7, name: 'reader', key: 'mb_reader_0123456789', admin: false })
  const reader = { ...none, apiKey: 'mb_reader_0123456789' }
  await expect(run({ access: reader })).rejects.toThrow('may not administer Metabase')
  expect(metabase.writes()).toEqual([])

  await rm(keyFile)
  const login = { ...none, ...ADMIN }
  const badLogin = run({ access: { ...login, adminPassword: 'errada' } })
  await expect(badLogin).rejects.toThrow(/rejects the login \(401\): .*Check METABASE_ADMIN_EMAIL/)
  await expect(run({ access: login })).rejects.toThrow('already has an API key "editais-sync"')
  await writeFile(keyFile, `${made}\n`)
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.violations).toEqual([])
})

test.each<[Trouble, RegExp, (metabase: StandIn) => void | Promise<void>]>([
  [
    'unreachable',
    /^Metabase does not answer at http:\S+ \(ECONNREFUSED\)\. Start it/,
    metabase => metabase.stop(),
  ],
  ['slow', /did not answer within 0\.3 s/, metabase => answer(metabase, () => {})],
  [
    'slow',
    /did not answer within 0\.3 s/,
    metabase => answer(metabase, response => response.writeHead(200).write('{')),
  ],
  ['starting', /not ready \(503\)/, metabase => answer(metabase, status(503))],
  [
    'failed',
    /failed at GET .* \(500\): bad \*\*\*\. Check its log/,
    metabase => answer(metabase, status(500)),
  ],
  ['forbidden', /does not allow GET .* \(403\)/, metabase => answer(metabase, status(403))],
  ['rejected', /rejects GET .* \(400\): bad \*\*\*\./, metabase => answer(metabase, status(400))],
  [
    'redirected',
    /redirects \(302\) to https:\/\/other\.example\./,
    metabase => answer(metabase, status(302)),
  ],
  [
    'failed',
    /does not answer as Metabase does \(expected JSON\)/,
    metabase => answer(metabase, response => response.end('<html>')),
  ],
])('a Metabase that is %s has its own message: %s', async (trouble, message, breakIt) => {
  const metabase = await startMetabase()
  const key = 'mb_3f9c1d7a5b'
  const client = clientOf(metabase.url, key, 300)
  await breakIt(metabase)
  const error = await client.get('/api/user/current').then(
    () => null,
    (error: Error) => error,
  )
  expect(error).toBeInstanceOf(FatalError)
  expect(error).toMatchObject({ trouble, message: expect.stringMatching(message) })
  expect(error?.message).not.toContain(key)
})

type Answer = Parameters<StandIn['intercept']>[1]

function answer(metabase: StandIn, how: (response: Answer) => unknown): void {
  metabase.intercept = (_, response) => {
    how(response)
    return true
  }
}

/** Repeats the key, as a server may. */
function status(code: number): (response: Answer) => unknown {
  return response =>
    response
      .writeHead(code, { location: 'https://other.example/?key=mb_3f9c1d7a5b' })
      .end(JSON.stringify({ message: 'bad mb_3f9c1d7a5b' }))
}

test('the command finds the latest snapshot, and prints its changes and what the worker needs', async () => {
  const { metabase, keyFile } = await newMetabase()
  const passwordFile = `${keyFile}.password`
  await writeFile(passwordFile, `${ADMIN.adminPassword}\n`)
  const settings = {
    ...environment,
    METABASE_URL: metabase.url,
    METABASE_API_KEY_FILE: keyFile,
    METABASE_ADMIN_EMAIL: ADMIN.adminEmail,
    METABASE_ADMIN_PASSWORD_FILE: passwordFile,
  }
  const first = await runShared(['metabase'], settings)
  expect(first).toMatchObject({ code: EXIT.ok, stderr: '' })
  expect(first.stdout).toMatch(/- created the first user, dados@example\.com\n- created the API key/)
  expect(first.stdout).toMatch(/From now on, the worker points Metabase to each new snapshot\.\n$/)
  expect(first.stdout).not.toContain(ADMIN.adminPassword)
  expect(first.stdout).not.toContain(await keyIn(keyFile))

  await writeFile(keyFile, 'mb_two words\n')
  const second = await runShared(['metabase', '--json'], settings)
  expect(second).toMatchObject({ code: EXIT.usage, stdout: '' })
  expect(second.stderr).toMatch(/^The API key in the file of METABASE_API_KEY_FILE contains white space.*\n$/)
  expect(metabase.violations).toEqual([])
})

test('the image has the driver for the DuckDB version that writes the catalogs', async () => {
  const text = await readFile(join(import.meta.dirname, '../config/metabase/Dockerfile'), 'utf8')
  expect(validate(text)).toEqual([])
  const pinned = Object.fromEntries(
    [...text.matchAll(/^ARG (\w+)="?([^"\n]*)/gm)].map(([, name, value]) => [name, value]),
  )
  const { dependencies } = JSON.parse(await readFile(join(import.meta.dirname, '../package.json'), 'utf8'))
  expect(dependencies['@duckdb/node-api']).toMatch(new RegExp(`^${pinned.DUCKDB_VERSION}-r`))
  expect(pinned.DRIVER_VERSION).toMatch(new RegExp(`^${pinned.DUCKDB_VERSION}\\.`))
  expect(pinned.METABASE_IMAGE).toMatch(/:v0\.63\./)
})

test('no card overlaps another, and each has its file', async () => {
  for (const { cards } of DASHBOARDS) {
    const cells = cards.flatMap(({ at }) =>
      Array.from({ length: at.width * at.height }, (_, cell) =>
        [at.row + Math.floor(cell / at.width), at.col + (cell % at.width)].join(),
      ),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(cards.every(({ at }) => at.col + at.width <= 24)).toBe(true)
  }
  const files = await readdir(join(import.meta.dirname, '../config/metabase/cards'))
  expect(files.sort()).toEqual(CARDS.map(({ key }) => `${key}.sql`).sort())
})

test.each(CARDS)('the card $key returns rows on a real snapshot, with the columns it shows', async card => {
  const { sql } = await readCard(card.key)
  const { columns, rows } = await catalog.table(withoutValue(sql))
  expect(rows.length).toBeGreaterThan(0)
  expect(namedIn(card.settings).filter(name => !columns.includes(name))).toEqual([])
  // A dashboard's filter applies to all of its cards.
  expect(filtersOf(sql, card.filters)).toEqual(card.filters)
  for (const { key } of card.filters) {
    const { rows: some } = await catalog.table(withValue(sql, key), { [key]: 'SP' })
    expect(some.length).toBeLessThanOrEqual(rows.length)
  }
})

/** The query as Metabase runs it with an empty filter. */
function withoutValue(sql: string): string {
  return sql.replaceAll(/\[\[.*?\]\]/gs, '')
}

/** The query as Metabase runs it with a value: as a parameter of the statement. */
function withValue(sql: string, key: string): string {
  return sql.replaceAll(/\[\[(.*?)\]\]/gs, '$1').replaceAll(`{{${key}}}`, `$${key}`)
}

/** The columns that the visualization settings name. */
function namedIn(settings: Readonly<Record<string, unknown>>): string[] {
  const texts = [
    ...['graph.dimensions', 'graph.metrics'].flatMap(name => (settings[name] ?? []) as string[]),
    ...['scalar.field', 'funnel.dimension', 'funnel.metric'].map(
      name => settings[name] as string | undefined,
    ),
    ...Object.keys((settings.column_settings ?? {}) as object).map(name => JSON.parse(name)[1] as string),
    ...((settings['table.column_formatting'] ?? []) as { columns: string[] }[]).flatMap(
      ({ columns }) => columns,
    ),
    ...Object.keys((settings.series_settings ?? {}) as object),
  ]
  return texts.filter(name => name !== undefined)
}
