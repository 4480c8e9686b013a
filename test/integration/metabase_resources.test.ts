import { readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { marked } from '#src/extras/metabase/mark.ts'
import { newMetabase, type Published, publishCompany } from '#test/support/metabase/session.ts'
import { temporaryDirectory } from '#test/support/project.ts'

let company: Published

beforeAll(async () => {
  company = await publishCompany()
})

afterAll(() => company.remove())

const OPTIONS = 'additional-options'

test('a query that needs more than its memory spills into a directory of its own', async () => {
  const { metabase, run } = await newMetabase(company)
  const spillDirectory = await temporaryDirectory()
  await run({ resources: { memoryMb: 70, spillDirectory } })
  const { details } = metabase.state.databases.at(-1) as unknown as { details: Record<string, unknown> }
  const own = join(spillDirectory, `acme-${basename(dirname(company.catalogPath))}`)
  expect(details).toMatchObject({ memory_limit: '70MB' })
  expect(details[OPTIONS]).toBe(`temp_directory=${own}&max_temp_directory_size=4GB`)
  expect(metabase.violations).toEqual([])

  const options = Object.fromEntries(new URLSearchParams(String(details[OPTIONS])))
  const instance = await DuckDBInstance.create(company.catalogPath, {
    access_mode: 'READ_ONLY',
    threads: '1',
    memory_limit: String(details.memory_limit),
    ...options,
  })
  const connection = await instance.connect()
  // Read as a stream: at the first rows all are sorted, and most of them still on disk.
  const sorted = await connection.stream('SELECT random() AS x FROM range(9_000_000) ORDER BY x')
  expect((await sorted.fetchChunk())?.rowCount).toBeGreaterThan(0)
  expect(await readdir(own)).not.toEqual([])
  instance.closeSync()
})

test('the memory is shared by the databases of all companies, and other details stay', async () => {
  const { metabase, run } = await newMetabase(company)
  const resources = { memoryMb: 1000, spillDirectory: '/spill' }
  const { databaseId } = await run({ resources })
  const database = metabase.state.databases.at(-1) as Record<string, unknown>
  const details = () => database.details as Record<string, unknown>
  expect(details()).toMatchObject({ memory_limit: '1000MB' })

  Object.assign(details(), { [OPTIONS]: 'threads=2&temp_directory=/elsewhere', init_sql: 'SELECT 1' })
  Object.assign(database, { cache_ttl: 3600 })
  metabase.state.databases.push({ id: 9001, engine: 'duckdb', description: marked('', 'boreal', 'base') })
  metabase.state.databases.push({ id: 9002, engine: 'duckdb', description: 'theirs' })
  expect(await run({ resources })).toMatchObject({ databaseId, changes: [expect.stringMatching(/^pointed/)] })
  expect(details()).toMatchObject({ memory_limit: '500MB', init_sql: 'SELECT 1' })
  expect(details()[OPTIONS]).toMatch(
    /^threads=2&temp_directory=\/spill\/acme-[^&]+&max_temp_directory_size=4GB$/,
  )
  expect(database.cache_ttl).toBe(3600)

  metabase.writes()
  expect(await run({ resources })).toMatchObject({ changes: [] })
  // Without settings, Metabase's own count.
  Object.assign(details(), { memory_limit: '3GB' })
  expect(await run()).toMatchObject({ changes: [] })
  expect(metabase.writes()).toEqual([])
  expect(metabase.violations).toEqual([])
})
