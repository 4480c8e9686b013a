import { writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readMetabaseSettings } from '#config/settings.ts'
import { MARK, mark } from '#src/extras/metabase/mark.ts'
import { listRelationMeanings } from '#src/extras/metabase/metadata.ts'
import { EXIT } from '#src/lib/errors.ts'
import { ADMIN, newMetabase, type Published, publishCompany } from '#test/support/metabase/session.ts'
import { runShared } from '#test/support/shared.ts'

const TRINO = { host: 'trino', port: 8080, ssl: false, catalog: 'lake', schema: 'editais_acme' }
const AT = 'trino:8080/lake'
const REMOTE = { LAKE_URL: 's3://lake', ICEBERG_CATALOG_URI: 'http://iceberg-catalog:8181' }
const METABASE = { METABASE_URL: 'http://metabase:3000', COMPANY: 'acme' }

let company: Published

beforeAll(async () => {
  company = await publishCompany()
})

afterAll(() => company.remove())

test('one run adds the connection to Trino, with names in Portuguese, and a second changes nothing', async () => {
  const { metabase, run } = await newMetabase(company)
  metabase.trino = { at: AT, schemas: new Map([['editais_acme', company.catalogPath]]) }
  const done = await run({ trino: TRINO })
  expect(metabase.violations).toEqual([])
  expect(done.warnings).toEqual([])
  expect(done.changes).toContain(`added the database "Editais no Trino (acme)" (${done.trinoDatabaseId})`)

  const { databases, tables } = metabase.state
  const database = databases.find(({ id }) => id === done.trinoDatabaseId)
  expect(database).toMatchObject({ engine: 'starburst', details: { ...TRINO, user: 'metabase' } })
  expect(database?.details).toHaveProperty(MARK, mark('acme', 'trino'))
  expect(database?.description).toMatch(/^Editais acompanhados.*Trino\.$/)
  const own = tables.filter(table => table.db_id === done.trinoDatabaseId)
  expect(new Set(own.map(({ schema }) => schema))).toEqual(new Set(['editais_acme']))
  for (const { name, label, description } of listRelationMeanings()) {
    expect(own.find(table => table.name === name)).toMatchObject({ display_name: label, description })
  }
  // Its foreign keys point to its own tables, not to those of the other database.
  const field = (table: string) =>
    own.find(({ name }) => name === table)?.fields.find(({ name }) => name === 'edital_id')
  expect(field('alerts')).toMatchObject({ fk_target_field_id: field('editais')?.id })

  metabase.writes()
  const again = await run({ trino: TRINO })
  expect(metabase.writes()).toEqual([])
  expect(again).toMatchObject({ changes: [], trinoDatabaseId: done.trinoDatabaseId })
})

test('a connection is moved to another Trino; its user and a person’s settings stay', async () => {
  const { metabase, run } = await newMetabase(company)
  metabase.trino = { at: AT, schemas: new Map([['editais_acme', company.catalogPath]]) }
  const { trinoDatabaseId: id } = await run({ trino: TRINO })
  const database = metabase.state.databases.find(one => one.id === id)
  Object.assign(database ?? {}, { name: 'Nosso Trino', cache_ttl: 3600 })
  Object.assign(database?.details ?? {}, { user: 'bi' })
  metabase.trino = { ...metabase.trino, at: 'trino.example.com:443/lake' }
  const moved = { ...TRINO, host: 'trino.example.com', port: 443, ssl: true }
  const done = await run({ trino: moved })
  expect(done.changes).toEqual([`repaired the database "Nosso Trino" (${id})`])
  expect(database).toMatchObject({ name: 'Nosso Trino', cache_ttl: 3600, details: { ...moved, user: 'bi' } })

  // An earlier version had its mark at the end of the description.
  Object.assign(database?.details ?? {}, { [MARK]: undefined })
  Object.assign(database ?? {}, { description: `Do BI\n\n[${mark('acme', 'trino')}]` })
  metabase.trino = { ...metabase.trino, at: AT }
  metabase.writes()
  expect((await run({ trino: TRINO })).changes).toEqual(done.changes)
  expect(metabase.writes()).toEqual([`PUT /api/database/${id}`])
  expect(database).toMatchObject({ description: 'Do BI', cache_ttl: 3600, details: { ...TRINO, user: 'bi' } })
  expect(database?.details).toHaveProperty(MARK, mark('acme', 'trino'))
  expect((await run({ trino: TRINO })).changes).toEqual([])
  expect(metabase.violations).toEqual([])
})

test('a run that was cut short after it added the connection is completed by the next', async () => {
  const { metabase, run } = await newMetabase(company)
  metabase.trino = { at: AT, schemas: new Map([['editais_acme', company.catalogPath]]) }
  metabase.intercept = (request, response) => {
    const connection = metabase.state.databases.find(({ engine }) => engine === 'starburst')
    if (request.method !== 'PUT' || request.url !== `/api/database/${connection?.id}`) return false
    response.destroy()
    return true
  }
  await expect(run({ trino: TRINO })).rejects.toMatchObject({ trouble: 'unreachable' })
  metabase.intercept = () => false
  const done = await run({ trino: TRINO })
  const connections = metabase.state.databases.filter(({ engine }) => engine === 'starburst')
  expect(connections.map(({ id }) => id)).toEqual([done.trinoDatabaseId])
  expect(connections[0]?.description).toMatch(/^Editais acompanhados.*Trino\.$/)
  expect(metabase.violations).toEqual([])
})

test('a Trino that Metabase does not reach, or that has no tables yet, is a warning: the rest is set up', async () => {
  const { metabase, run } = await newMetabase(company)
  const without = await run({ trino: TRINO })
  expect(without.trinoDatabaseId).toBeNull()
  expect(without.warnings).toEqual([
    expect.stringMatching(/^Metabase has no connection to Trino.*Check --trino.*8080/),
  ])
  expect(metabase.state.dashboards).toHaveLength(without.dashboards.length)

  metabase.trino = { at: AT, schemas: new Map() }
  const empty = await run({ trino: TRINO, syncMs: 20 })
  expect(empty.warnings).toEqual([
    expect.stringMatching(/has not read editais,.* from Trino \(schema editais_acme\) yet/),
  ])

  metabase.trino = { at: AT, schemas: new Map([['editais_acme', company.catalogPath]]) }
  expect(await run({ trino: TRINO })).toMatchObject({ warnings: [], trinoDatabaseId: empty.trinoDatabaseId })
  expect(metabase.violations).toEqual([])
})

test('the command connects Metabase to the Trino of --trino', async () => {
  const { metabase, keyFile } = await newMetabase(company)
  metabase.trino = { at: AT, schemas: new Map([['editais_acme', company.catalogPath]]) }
  const passwordFile = `${keyFile}.password`
  await writeFile(passwordFile, `${ADMIN.adminPassword}\n`)
  const admin = ['--admin', ADMIN.adminEmail, '--admin-password-file', passwordFile]
  const { code, stdout, stderr } = await runShared(
    ['metabase', ...admin, '--trino', 'http://trino:8080/lake'],
    {
      ...company.environment,
      ...REMOTE,
      METABASE_URL: metabase.url,
      METABASE_API_KEY_FILE: keyFile,
    },
  )
  expect({ code, stderr }).toEqual({ code: EXIT.ok, stderr: '' })
  expect(stdout).toMatch(/- added the database "Editais no Trino \(acme\)"/)
  expect(stdout).toMatch(/^Trino {5}\d+$/m)
})

test('--trino names Trino and its catalog; the schema is the namespace of the Iceberg catalog', () => {
  const read = (url: string, more: Record<string, string> = REMOTE) =>
    readMetabaseSettings({ ...METABASE, ...more }, { trino: url }).trino
  expect(read('http://trino:8080/lake')).toEqual(TRINO)
  expect(read('https://trino.example.com/bi/', { ...REMOTE, ICEBERG_NAMESPACE: 'bi.{company}' })).toEqual({
    ...{ host: 'trino.example.com', port: 443, ssl: true },
    ...{ catalog: 'bi', schema: 'bi.acme' },
  })
  expect(readMetabaseSettings(METABASE).trino).toBeNull()
  for (const wrong of ['trino', 'http://trino:8080', 'http://a:b@trino/lake', 'trino://trino/lake']) {
    expect(() => read(wrong)).toThrow(/^--trino must be the address of Trino/)
  }
  expect(() => read('http://trino:8080/lake', {})).toThrow(/needs LAKE_URL and ICEBERG_CATALOG_URI/)
})
