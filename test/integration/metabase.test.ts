import { stat, writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { MARK, mark } from '#src/extras/metabase/mark.ts'
import { listRelationMeanings } from '#src/extras/metabase/metadata.ts'
import { EXIT } from '#src/lib/errors.ts'
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
import type { Entity } from '#test/support/metabase/state.ts'
import { runShared } from '#test/support/shared.ts'

let company: Published

beforeAll(async () => {
  company = await publishCompany()
})

afterAll(() => company.remove())

test('one run sets up a new Metabase, and a second changes nothing', async () => {
  const { metabase, keyFile, run } = await newMetabase(company)
  metabase.syncMs = 30
  const done = await run()
  expect(metabase.violations).toEqual([])
  expect(done.warnings).toEqual([])
  expect(done.metabaseVersion).toBe('v0.63.1')
  expect(done.dashboards.map(({ name }) => name)).toEqual([
    'Hoje',
    'Funil e carteira',
    'Agenda e pendências',
    'Riscos jurídicos',
    'Decisões',
  ])

  const { state } = metabase
  expect(state.user).toMatchObject({ email: ADMIN.adminEmail })
  expect([...state.sessions]).toEqual([])
  expect(await keyIn(keyFile)).toBe(state.apiKeys[0]?.key)
  expect((await stat(keyFile)).mode & 0o777).toBe(0o600)
  expect(state.settings.get('report-timezone')).toBe('America/Sao_Paulo')
  expect(state.settings.get('anon-tracking-enabled')).toBe(false)
  expect(state.settings.get('start-of-week')).toBe('monday')
  // As Brazilians write: 1.234,56, R$, 31/12/2026, 09:00.
  expect(state.settings.get('custom-formatting')).toEqual({
    'type/Number': { number_separators: ',.' },
    'type/Currency': { currency: 'BRL', currency_style: 'symbol' },
    'type/Temporal': { date_style: 'D/M/YYYY', date_separator: '/', time_style: 'HH:mm' },
  })

  const database = state.databases.find(({ id }) => id === done.databaseId)
  expect(database).toMatchObject({ name: 'Editais (acme)', engine: 'duckdb' })
  expect(database?.details).toMatchObject({ database_file: company.catalogPath, read_only: true })

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
  // Every table and column that people see has its Portuguese description.
  for (const { name, label, description, columns } of listRelationMeanings()) {
    expect(state.tables.find(table => table.name === name)).toMatchObject({
      display_name: label,
      description,
    })
    for (const column of isTechnical({ name }) ? [] : columns) {
      expect(field(name, column.name)).toMatchObject({ description: column.description })
    }
  }
  expect(state.cards).toHaveLength(CARDS.length)
  expect(state.dashboards.map(({ dashcards }) => (dashcards as unknown[]).length)).toEqual(
    DASHBOARDS.map(({ cards }) => cards.length),
  )

  // A column has a call of its own, of some 70 ms.
  expect(metabase.writes().length).toBeLessThan(1000)
  const again = await run()
  expect(metabase.writes()).toEqual([])
  expect(again).toMatchObject({ changes: [], warnings: [], databaseId: done.databaseId })
  // Metabase leaves a file open each time that it reads a schema.
  expect(metabase.leftOpen).toHaveLength(1)
  expect(metabase.violations).toEqual([])
  const [last] = metabase.requests.slice(-1)
  expect(last?.headers).toMatchObject({ 'x-api-key': state.apiKeys[0]?.key })
})

test('a run keeps what others made, repairs our changed items and restores removed ones', async () => {
  const { metabase, run } = await newMetabase(company)
  await run()
  const { cards, dashboards, collections, settings } = metabase.state
  settings.set('report-timezone', 'UTC')
  const [ours] = cards as [(typeof cards)[number]]
  const collectionId = collections.at(-1)?.id
  // A card with the same name, a copy of ours, and a dashboard with the same name.
  const person = { creator: { id: 2, email: 'ana@example.com' }, creator_id: 2 }
  const theirs = { ...ours, ...person, id: 9001, visualization_settings: {}, display: 'table' }
  const theirDashboard = {
    ...{ id: 9003, name: 'Funil e carteira', description: null, archived: false },
    ...{ collection_id: collectionId, dashcards: [], ...person },
  }
  // A copy of a card has our mark, and may be edited; the original is then in the trash, or deleted.
  const [, deleted, original] = cards as [Entity, Entity, Entity]
  const they = clientOf(metabase.url)
  const login = { username: ADMIN.adminEmail, password: ADMIN.adminPassword }
  they.identify({ session: (await they.post<{ id: string }>('/api/session', login)).id })
  await they.post(`/api/card/${deleted.id}/copy`)
  await they.post(`/api/card/${original.id}/copy`)
  const copy = Object.assign(cards.at(-1) as Entity, { name: 'Cópia', display: 'row' })
  expect(settingsOf(copy)[MARK]).toBe(mark('acme', CARDS[2]?.key ?? ''))
  const copies = cards.length - 2
  await they.post(`/api/dashboard/${dashboards[1]?.id}/copy`, { is_deep_copy: true })
  const copiedDashboard = dashboards.at(-1) as Entity
  Object.assign(original, { archived: true })
  // With the collection, which is then in the trash as well.
  Object.assign(dashboards[1] as object, { archived: true, collection_id: 1 })
  cards.push(theirs)
  dashboards.push(theirDashboard)
  // Their card on our dashboard, in a tab.
  const [dashboard] = dashboards as [(typeof dashboards)[number]]
  const dashcards = dashboard.dashcards as Record<string, unknown>[]
  const added = { id: 9004, card_id: 9001, row: 90, col: 0, size_x: 4, size_y: 4, dashboard_tab_id: 5 }
  dashcards.push({ ...added, visualization_settings: { 'card.title': 'x' }, created_at: 'now' })
  Object.assign(dashboard, { tabs: [{ id: 5, name: 'Geral', position: 0 }] })
  for (const dashcard of dashcards) dashcard.dashboard_tab_id = 5
  const copied = cards.slice(copies)
  const kept = structuredClone([copied, theirDashboard, copiedDashboard])
  // Our items, changed and removed.
  Object.assign(ours, { name: 'outro nome', display: 'table' })
  cards.splice(1, 1)
  const shown = dashcards.findIndex(({ card_id: cardId }) => cardId === deleted.id)
  dashcards.splice(shown, 1)

  const done = await run()
  expect(metabase.violations).toEqual([])
  expect(done.changes).toEqual(['1 card created', '2 cards repaired', '2 dashboards repaired'])
  expect([original.archived, dashboards[1]?.archived]).toEqual([false, false])
  expect([original.collection_id, dashboards[1]?.collection_id]).toEqual([collectionId, collectionId])
  expect(done.warnings).toEqual([expect.stringMatching(/time zone is UTC, not America\/Sao_Paulo/)])
  const own = CARDS[0] as (typeof CARDS)[number]
  expect(ours).toMatchObject({ name: (await readCard(own.key)).name, display: own.display })
  expect(kept[0]).toHaveLength(3 + (DASHBOARDS[1]?.cards.length ?? 0))
  expect([copied, theirDashboard, copiedDashboard]).toEqual(kept)
  const after = dashboard.dashcards as Record<string, unknown>[]
  expect(after).toHaveLength((DASHBOARDS[0]?.cards.length ?? 0) + 1)
  expect(after.find(({ id }) => id === 9004)).toMatchObject(added)
  expect(after.every(({ dashboard_tab_id: tab }) => tab === 5)).toBe(true)
  const made = cards.at(-1)
  expect(settingsOf(made)[MARK]).toBe(mark('acme', CARDS[1]?.key ?? ''))
  expect(after.some(({ card_id: cardId }) => cardId === made?.id)).toBe(true)

  metabase.writes()
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.writes()).toEqual([])
})

test('a run that was cut short anywhere is completed by the next', async () => {
  const { metabase, run } = await newMetabase(company)
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

test('the command finds the latest snapshot, and prints its changes and what the worker needs', async () => {
  const { metabase, keyFile } = await newMetabase(company)
  const passwordFile = `${keyFile}.password`
  await Promise.all([writeFile(passwordFile, `${ADMIN.adminPassword}\n`), writeFile(keyFile, '')])
  const settings = {
    ...company.environment,
    METABASE_URL: metabase.url,
    METABASE_API_KEY_FILE: keyFile,
  }
  const admin = ['--admin', ADMIN.adminEmail, '--admin-password-file', passwordFile]
  const first = await runShared(['metabase', ...admin], settings)
  expect(first).toMatchObject({ code: EXIT.ok, stderr: '' })
  expect(first.stdout).toMatch(/- created the first user, dados@example\.com\n- created the API key/)
  expect(first.stdout).toMatch(/From now on, the worker points Metabase to each new snapshot\.\n$/)
  expect(first.stdout).not.toContain(ADMIN.adminPassword)
  expect(first.stdout).not.toContain(await keyIn(keyFile))

  const again = await runShared(['metabase'], settings)
  expect(again).toMatchObject({ code: EXIT.ok, stderr: '' })
  expect(again.stdout).toMatch(/^Nothing to change\.\n/)

  await writeFile(keyFile, 'mb_two words\n')
  const second = await runShared(['metabase', '--json'], settings)
  expect(second).toMatchObject({ code: EXIT.usage, stdout: '' })
  expect(second.stderr).toMatch(/^The API key in the file of METABASE_API_KEY_FILE contains white space.*\n$/)
  expect(metabase.violations).toEqual([])
})
