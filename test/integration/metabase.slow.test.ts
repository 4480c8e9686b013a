import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { pointDatabase } from '#src/extras/metabase/database.ts'
import { readMetabaseState } from '#src/extras/metabase/follow.ts'
import { MARK, mark } from '#src/extras/metabase/mark.ts'
import { EXIT } from '#src/lib/errors.ts'
import { MARTS } from '#src/marts/marts.ts'
import { readCard } from '#src/present/questions.ts'
import { isTechnical } from '#src/present/text/cells.ts'
import {
  ADMIN,
  CARDS,
  clientOf,
  keyIn,
  newMetabase,
  type Published,
  publishCompany,
  settingsOf,
} from '#test/support/metabase/session.ts'
import type { StandIn } from '#test/support/metabase/stand_in.ts'
import type { Entity } from '#test/support/metabase/state.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'

const OPTIONS = 'additional-options'

/** Opens the catalog as the driver does with these details, twice; a list is a text that DuckDB reads. */
async function openAsMetabase(details: Readonly<Record<string, unknown>>, more: Record<string, string> = {}) {
  const options = Object.fromEntries(new URLSearchParams(String(details[OPTIONS])))
  const { allowed_directories: readable, ...others } = options
  const config = { access_mode: 'READ_ONLY', ...more, ...others }
  const instance = await DuckDBInstance.create(company.catalogPath, config)
  const connections = [await instance.connect(), await instance.connect()] as const
  await connections[0].run(`SET allowed_directories = '${String(readable).replaceAll("'", "''")}'`)
  for (const connection of connections) await connection.run(String(details.init_sql))
  return { instance, connection: connections[1] }
}

let company: Published

/** Returns the catalog of a second snapshot, which is the first one again. */
async function anotherSnapshot(): Promise<string> {
  const place = join(company.lake, 'snapshots', 'another')
  await symlink(dirname(company.catalogPath), place).catch(() => {})
  return join(place, 'catalog.duckdb')
}

beforeAll(async () => {
  company = await publishCompany()
})

afterAll(() => company.remove())

/** Returns all descriptions that people see. */
function descriptionsIn({ state }: StandIn): unknown[] {
  const { databases, collections, cards, dashboards } = state
  return [...databases, ...collections, ...cards, ...dashboards].map(({ description }) => description)
}

test('people see no mark, and one that an earlier version wrote is moved out of sight with one write each', async () => {
  const { metabase, run } = await newMetabase(company)
  const { databaseId } = await run()
  const { databases, collections, cards, dashboards } = metabase.state
  expect(descriptionsIn(metabase).filter(text => /editais-sync/.test(String(text)))).toEqual([])
  const after = structuredClone([databases.at(-1), cards, dashboards])

  const database = databases.at(-1) as Entity
  const collection = collections.at(-1) as Entity
  const before = (one: Entity | undefined, key: string): Entity =>
    Object.assign(one as Entity, { description: `${one?.description}\n\n[${mark('acme', key)}]` })
  before(database, 'base')
  before(collection, 'colecao')
  for (const [position, { key }] of CARDS.entries()) {
    delete settingsOf(before(cards[position], key))[MARK]
  }
  for (const [position, { key }] of DASHBOARDS.entries()) {
    delete before(dashboards[position], key).points_of_interest
  }
  Object.assign(database, { cache_ttl: 3600 })
  // Copies have the mark in their descriptions, too.
  const person = { creator: { id: 2, email: 'ana@example.com' }, creator_id: 2 }
  const copies = [structuredClone(cards[0]), structuredClone(dashboards[0])] as [Entity, Entity]
  for (const copy of copies) Object.assign(copy, person, { id: 9000 })
  const kept = structuredClone(copies)
  cards.push(copies[0])
  dashboards.push(copies[1])
  // What people wrote stays.
  Object.assign(collection, { description: `Nossos editais [${mark('acme', 'colecao')}]` })

  metabase.writes()
  expect((await run()).changes).toEqual([
    `${CARDS.length} cards repaired`,
    `${DASHBOARDS.length} dashboards repaired`,
  ])
  expect(metabase.writes()).toEqual([
    `PUT /api/database/${databaseId}`,
    `PUT /api/collection/${collection.id}`,
    ...CARDS.map((_, position) => `PUT /api/card/${cards[position]?.id}`),
    ...DASHBOARDS.map((_, position) => `PUT /api/dashboard/${dashboards[position]?.id}`),
  ])
  expect(copies).toEqual(kept)
  expect([database.cache_ttl, collection.description]).toEqual([3600, 'Nossos editais'])
  Object.assign(database, { cache_ttl: null })
  expect([database, cards.slice(0, -1), dashboards.slice(0, -1)]).toEqual(after)
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.writes()).toEqual([])
  expect(metabase.violations).toEqual([])
})

test('our database stays ours, whatever other ones read, and in a run that is cut short before it reads our file', async () => {
  const { metabase, run } = await newMetabase(company)
  const { databaseId } = await run()
  const { databases, collections } = metabase.state
  const database = databases.at(-1) as Entity
  const details = database.details as Record<string, unknown>
  // Another installation's, older, of a company with the same name; and people's own collection with ours' name.
  const other = { ...details, database_file: '/srv/acme/lake/latest/catalog.duckdb' }
  databases.unshift({ ...structuredClone(database), id: 0, details: other })
  const { name, description } = collections.at(-1) as Entity
  collections.unshift({ id: 0, name, description, personal_owner_id: 2 })
  expect(await run()).toMatchObject({ databaseId, changes: [] })
  databases.shift()

  // Of an earlier version, and an administrator set its file.
  Object.assign(database, {
    description: `Editais\n\n[${mark('acme', 'base')}]`,
    details: { ...details, database_file: '/srv/moved.duckdb' },
  })
  metabase.intercept = ({ method }, response) => {
    if (method === 'PUT') response.destroy()
    return method === 'PUT'
  }
  await expect(run()).rejects.toMatchObject({ trouble: 'unreachable' })
  metabase.intercept = () => false
  expect(await run()).toMatchObject({
    databaseId,
    changes: [`pointed the database to ${company.catalogPath}`],
  })
  expect(database.description).toBe('Editais')
  expect(await run()).toMatchObject({ databaseId, changes: [] })
  expect(metabase.violations).toEqual([])
})

test('our collection is the one that has our items, and another is made if it is in the trash', async () => {
  const { metabase, run } = await newMetabase(company)
  const { collections, cards, dashboards, apiKeys } = metabase.state
  // An earlier version made it, and nothing after it.
  const collection: Entity = {
    id: 90,
    name: 'Editais',
    description: `Painéis\n\n[${mark('acme', 'colecao')}]`,
  }
  collections.push(collection)
  await run()
  expect(collections).toHaveLength(2)
  expect(collection.description).toBe('Painéis')
  const [card, first] = [cards[0], dashboards[0]] as [Entity, Entity]
  Object.assign(collection, { name: 'Licitações', description: null })
  // One of ours was moved elsewhere, and one deleted.
  const removed = cards.splice(1, 1)[0]
  const dashcards = (first.dashcards as Entity[]).filter(one => one.card_id !== removed?.id)
  Object.assign(first, { collection_id: 1, dashcards })
  expect((await run()).changes).toEqual(['1 card created', '1 dashboard repaired'])
  expect([cards.at(-1)?.collection_id, first.collection_id]).toEqual([collection.id, 1])
  expect(collection).toMatchObject({ name: 'Licitações', description: null })

  const they = clientOf(metabase.url, apiKeys[0]?.key)
  await they.put(`/api/collection/${collection.id}`, { archived: true })
  expect((await run()).changes).toEqual([
    `${CARDS.length} cards repaired`,
    `${DASHBOARDS.length - 1} dashboards repaired`,
  ])
  expect(collections.at(-1)).toMatchObject({ name: 'Editais (acme)', archived: false })
  for (const one of [card, dashboards[1]]) {
    expect(one).toMatchObject({ archived: false, collection_id: collections.at(-1)?.id })
  }
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.violations).toEqual([])
})

test('an object that was made, and nothing after it, is not made twice', async () => {
  const { metabase, run } = await newMetabase(company)
  let made = 0
  metabase.intercept = ({ method, url }, response) => {
    const isAfter = made > 0 && method !== 'GET'
    if (isAfter) response.destroy()
    else if (method === 'POST' && /collection|dashboard|database$/.test(String(url))) made += 1
    return isAfter
  }
  for (const _ of ['database', 'collection', ...DASHBOARDS]) {
    await run().catch(error => expect(error).toMatchObject({ trouble: 'unreachable' }))
    made = 0
  }
  metabase.intercept = () => false
  await run()
  const { databases, collections, dashboards } = metabase.state
  expect([databases, collections].map(those => those.length)).toEqual([2, 2])
  expect(dashboards).toHaveLength(DASHBOARDS.length)
  expect(descriptionsIn(metabase).filter(text => /editais-sync/.test(String(text)))).toEqual([])
  expect(databases.at(-1)?.description).toMatch(/^Editais acompanhados/)
  expect(metabase.violations).toEqual([])
})

test('a schema that Metabase has not read yet is requested, and described by a later run', async () => {
  const { metabase, run } = await newMetabase(company)
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
  const { metabase, keyFile, run } = await newMetabase(company)
  const { lake, catalogPath } = company
  const { databaseId } = await run()
  const client = clientOf(metabase.url, await keyIn(keyFile))
  const resources = { memoryMb: null, spillDirectory: null }
  const point = (path: string, columnsChanged = false, other = {}) =>
    pointDatabase({
      client,
      databaseId,
      company: 'acme',
      catalogPath: path,
      columnsChanged,
      resources,
      ...other,
    })
  metabase.writes()

  expect(await point(catalogPath)).toEqual({ from: catalogPath, moved: false, synced: false })
  expect(metabase.writes()).toEqual([])
  // Another path to the same file: the path given to Metabase counts.
  const other = join(lake, 'latest', 'catalog.duckdb')
  expect(await point(other)).toEqual({ from: catalogPath, moved: true, synced: false })
  expect(await run({ catalogPath: other })).toMatchObject({ databaseId, changes: [] })
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
  await expect(point(catalogPath, false, { databaseId: 77 })).rejects.toThrow(
    'has no database 77. Run `editais metabase`',
  )
  await expect(point(catalogPath, false, { databaseId: 1 })).rejects.toThrow(
    '(Sample Database) is a h2 database, not DuckDB, and was not changed',
  )
  await expect(point(catalogPath, false, { company: 'boreal' })).rejects.toThrow(
    'shows company acme, and was not changed',
  )
  expect(metabase.violations).toEqual([])
})

test('without permission a run explains what is missing, and changes nothing', async () => {
  const { metabase, keyFile, run } = await newMetabase(company)
  const none = { apiKey: null, apiKeyFile: keyFile, adminEmail: null, adminPassword: null }
  await expect(run({ access: none })).rejects.toThrow(
    /no API key in METABASE_API_KEY_FILE.*--admin and --admin-password-file/,
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
  await expect(badLogin).rejects.toThrow(/rejects the login \(401\): .*Check --admin/)
  await expect(run({ access: login })).rejects.toThrow('already has an API key "editais-sync"')
  await writeFile(keyFile, `${made}\n`)
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.violations).toEqual([])
})

test('DuckDB in Metabase reads the lake, and nothing else, unless its administrator says otherwise', async () => {
  const { metabase, run } = await newMetabase(company)
  await run()
  const { details } = metabase.state.databases.at(-1) as unknown as { details: Record<string, string> }
  const { instance, connection } = await openAsMetabase(details)
  // One of each dashboard: `test/unit/marts/cards.test.ts` has them all.
  for (const { cards } of DASHBOARDS) {
    const { sql } = await readCard(cards[0]?.key ?? '')
    await connection.run(sql.replaceAll(/\[\[.*?\]\]/gs, ''))
  }
  const elsewhere = join(await temporaryDirectory(), 'x.csv')
  for (const sql of [
    "FROM read_text('/etc/hostname')",
    `COPY (SELECT 1) TO '${elsewhere}'`,
    `ATTACH '${elsewhere}.duckdb'`,
    'INSTALL httpfs',
    'SET enable_external_access = true',
  ])
    await expect(connection.run(sql), sql).rejects.toThrow(/disabled|Permission|enable external access/)
  instance.closeSync()

  // SQL of a user stays, and the database is then open.
  Object.assign(details, { init_sql: 'SELECT 1', [OPTIONS]: 'threads=2' })
  const { warnings } = await run({ catalogPath: await anotherSnapshot() })
  expect(warnings).toEqual([
    expect.stringMatching(/^People who may write SQL.*unless it has an Init SQL of your own/),
  ])
  const after = metabase.state.databases.at(-1)?.details
  expect(after).toMatchObject({ init_sql: 'SELECT 1', [OPTIONS]: 'threads=2' })
})

test('a database from before is closed by the next snapshot, and a quote in its path is no end of the list', async () => {
  const { metabase, run } = await newMetabase(company)
  await run()
  const { details } = metabase.state.databases.at(-1) as unknown as { details: Record<string, string> }
  const before = `${details.init_sql}`.replace(' SET enable_external_access = false;', '')
  Object.assign(details, { init_sql: before, [OPTIONS]: undefined })
  expect((await run()).warnings).toEqual([expect.stringMatching(/The next snapshot closes the database/)])
  const place = join(await temporaryDirectory(), "o'b", 'lake', 'snapshots')
  await mkdir(place, { recursive: true })
  await symlink(dirname(company.catalogPath), join(place, 'one'))
  expect((await run({ catalogPath: join(place, 'one', 'catalog.duckdb') })).warnings).toEqual([])
  const after = metabase.state.databases.at(-1)?.details as Record<string, unknown>
  const { connection, instance } = await openAsMetabase(after)
  const answer = await connection.runAndReadAll(
    "SELECT unnest(current_setting('allowed_directories')) AS one",
  )
  expect(answer.getRowObjects()).toContainEqual({ one: `${dirname(place)}/` })
  instance.closeSync()
})

test('a card that only an earlier version made leaves our dashboards, and a copy of it stays', async () => {
  const { metabase, run } = await newMetabase(company)
  await run()
  const { cards, dashboards } = metabase.state
  const [dashboard] = dashboards as [Entity]
  const marked = { ...settingsOf(cards[0]), [MARK]: mark('acme', 'de_antes') }
  const old: Entity = { ...structuredClone(cards[0] as Entity), id: 9001, visualization_settings: marked }
  const earlier = { creator: { id: 999, email: 'api-key-user-9@api-key.invalid' }, id: 9000 }
  const key = { visualization_settings: { [MARK]: mark('acme', 'de_outra_chave') } }
  const other = { ...old, id: 9003, visualization_settings: { [MARK]: mark('acme-2', 'de_antes') } }
  const copy = { ...old, id: 9002, creator: { id: 2, email: 'ana@example.com' } }
  const added: Entity[] = [{ ...old, ...earlier, ...key }, old, copy, other]
  cards.push(...added)
  const place = { row: 300, col: 0, size_x: 4, size_y: 4, parameter_mappings: [] }
  const dashcards = added.map(({ id }) => ({ ...place, id: id + 1000, card_id: id }))
  dashboard.dashcards = [...(dashboard.dashcards as object[]), ...dashcards]
  const before = structuredClone(added)
  expect((await run()).changes).toEqual(['1 dashboard repaired'])
  const shown = (dashboard.dashcards as { card_id: number }[]).map(({ card_id: id }) => id)
  expect(shown.filter(id => id >= 9000)).toEqual([9002, 9003])
  expect(added).toEqual(before)
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.violations).toEqual([])
})

test('people do not see technical tables, unless they show them: then their columns are named, too', async () => {
  const { metabase, run } = await newMetabase(company)
  await run()
  const { tables } = metabase.state
  const hidden = tables.filter(({ visibility_type }) => visibility_type === 'technical')
  const technical = MARTS.filter(isTechnical).map(({ name }) => name)
  expect(hidden.map(({ name }) => name).sort()).toEqual(technical.sort())
  const [shown, renamed] = hidden as Entity[] as [Entity, Entity]
  for (const table of [shown, renamed]) table.visibility_type = null
  renamed.display_name = 'Dias'
  // Metabase then reads it.
  const client = clientOf(metabase.url, metabase.state.apiKeys[0]?.key)
  await client.post(`/api/database/${shown.db_id}/sync_schema`)
  await setTimeout(100)
  expect((await run()).changes).toEqual([
    '1 table described',
    expect.stringMatching(/^\d+ columns described$/),
  ])
  expect([shown.visibility_type, renamed.visibility_type]).toEqual([null, null])
  expect(await run()).toMatchObject({ changes: [], warnings: [] })
})

test('an extension that is missing is named', async () => {
  const { metabase, run } = await newMetabase(company)
  metabase.hasIcu = false
  await expect(run()).rejects.toThrow(/has no ICU extension for DuckDB/)
  metabase.hasIcu = true
  expect(await run()).toMatchObject({ warnings: [] })
})

test('a driver that is not there is named, and so is what was done before', async () => {
  const { metabase, keyFile } = await newMetabase(company)
  metabase.hasDriver = false
  const passwordFile = `${keyFile}.password`
  await writeFile(passwordFile, ADMIN.adminPassword)
  const settings = { ...company.environment, METABASE_URL: metabase.url, METABASE_API_KEY_FILE: keyFile }
  const admin = ['--admin', ADMIN.adminEmail, '--admin-password-file', passwordFile]
  const { code, stderr } = await runShared(['metabase', ...admin], settings)
  expect(code).toBe(EXIT.failed)
  expect(stderr).toMatch(
    /^Before it failed, this command did this:\n- created the first user, dados@example\.com\n- created the API key "editais-sync"\n- wrote it to .*\n(?:- set .*\n){3}Metabase at \S+ has no driver for DuckDB\./,
  )

  // From then on, the snapshot that Metabase reads is kept, although the rest failed.
  metabase.hasDriver = true
  metabase.intercept = ({ method, url }, response) => {
    const fails = method === 'POST' && url === '/api/collection'
    if (fails) response.destroy()
    return fails
  }
  expect(await runShared(['metabase'], settings)).toMatchObject({ code: EXIT.failed })
  const known = await readMetabaseState(companyPaths(dirname(dirname(company.lake)), 'acme').metabase)
  const error = '`editais metabase` did not finish. Run it again.'
  expect(known).toMatchObject({ reads: [company.catalogPath], catalog_hash: null, error })
})

test('a query that needs more than its memory spills into a directory of its own', async () => {
  const { metabase, run } = await newMetabase(company)
  const spillDirectory = await temporaryDirectory()
  await run({ resources: { memoryMb: 30, spillDirectory } })
  const { details } = metabase.state.databases.at(-1) as unknown as { details: Record<string, unknown> }
  const own = join(spillDirectory, `acme-${basename(dirname(company.catalogPath))}`)
  expect(details).toMatchObject({ memory_limit: '30MB' })
  expect(details[OPTIONS]).toBe(
    `allowed_directories=['${company.lake}/']&temp_directory=${own}&max_temp_directory_size=4GB`,
  )
  expect(metabase.violations).toEqual([])

  const limits = { threads: '1', memory_limit: String(details.memory_limit) }
  const { instance, connection } = await openAsMetabase(details, limits)
  // Read as a stream: at the first rows all are sorted, and most of them still on disk.
  const sorted = await connection.stream('SELECT random() AS x FROM range(3_000_000) ORDER BY x')
  expect((await sorted.fetchChunk())?.rowCount).toBeGreaterThan(0)
  expect(await readdir(own)).not.toEqual([])
  instance.closeSync()
})

test('the memory is shared by the databases of all companies with the next snapshot, and other details stay', async () => {
  const { metabase, run } = await newMetabase(company)
  const resources = { memoryMb: 1000, spillDirectory: '/spill' }
  const { databaseId } = await run({ resources })
  const database = metabase.state.databases.at(-1) as Record<string, unknown>
  const details = () => database.details as Record<string, unknown>
  expect(details()).toMatchObject({ memory_limit: '1000MB' })

  Object.assign(details(), { [OPTIONS]: 'threads=2&temp_directory=/elsewhere', init_sql: 'SELECT 1' })
  Object.assign(database, { cache_ttl: 3600 })
  const boreal = { database_file: '/data/boreal/lake/snapshots/one/catalog.duckdb' }
  metabase.state.databases.push({ id: 9001, engine: 'duckdb', details: boreal })
  metabase.state.databases.push({ id: 9002, engine: 'duckdb', description: 'theirs' })
  // DuckDB has the file open, and would refuse other options.
  expect(await run({ resources })).toMatchObject({ databaseId, changes: [] })
  const catalogPath = await anotherSnapshot()
  expect(await run({ resources, catalogPath })).toMatchObject({
    changes: [expect.stringMatching(/^pointed/)],
  })
  expect(details()).toMatchObject({ memory_limit: '500MB', init_sql: 'SELECT 1' })
  expect(details()[OPTIONS]).toBe('threads=2&temp_directory=/spill/acme-another&max_temp_directory_size=4GB')
  expect(database.cache_ttl).toBe(3600)

  metabase.writes()
  expect(await run({ resources, catalogPath })).toMatchObject({ changes: [] })
  // Without settings, Metabase's own count.
  Object.assign(details(), { memory_limit: '3GB' })
  expect(await run({ catalogPath })).toMatchObject({ changes: [] })
  expect(metabase.writes()).toEqual([])
  expect(metabase.violations).toEqual([])
})
