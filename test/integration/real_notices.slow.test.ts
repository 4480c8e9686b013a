import { existsSync } from 'node:fs'
import { readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { expect, test } from 'vitest'
import { readNoticesFile } from '#src/sandbox/world.ts'
import { companyDirectory } from '#test/support/project.ts'
import { expectRoundTrip } from '#test/support/round_trip.ts'
import { alertRows, analysisRow, editalRow, itemRows, type Row, requirementRows } from '#test/support/rows.ts'
import { startCompany } from '#test/support/synced.ts'

/** Real tenders; the project does not ship them. */
const NOTICES_FILE = join(import.meta.dirname, '../../../shared/pncp/world.ndjson.gz')

/** All rows of a table by notice and position, without the columns that depend on the run. */
async function published(directory: string, table: string): Promise<Row[]> {
  const rows: Row[] = []
  for (const name of await readdir(join(directory, table))) {
    const file = await asyncBufferFromFile(join(directory, table, name))
    const parsers = { timestampFromMicroseconds: (value: bigint) => value }
    for (const row of await parquetReadObjects({ file, compressors, parsers })) {
      const { run_id, first_seen_at, changed_at, fetched_at, ...lasting } = row
      expect([run_id, first_seen_at, changed_at, fetched_at]).not.toContain(null)
      rows.push(lasting)
    }
  }
  return inOrder(rows)
}

function inOrder(rows: Row[]): Row[] {
  const key = ({ edital_id, ordinal }: Row) => `${edital_id} ${String(ordinal).padStart(6, '0')}`
  return rows.sort((a, b) => (key(a) < key(b) ? -1 : 1))
}

test('every published value of 1,710 real notices equals its source document, and is served unchanged', async ({
  skip,
}) => {
  skip(!existsSync(NOTICES_FILE), `The file of real notices is not here: ${NOTICES_FILE}.`)
  const entries = await readNoticesFile(NOTICES_FILE)
  const company = await startCompany(entries)
  expect(await company.sync()).toMatchObject({ listed: 1710, added: 1710, loaded: 1710, quarantined: 0 })
  const latest = await realpath(join(companyDirectory(company.environment), 'lake/latest'))
  const expected: Record<string, { count: number; rows: Row[] }> = {
    editais: { count: 1710, rows: entries.map(editalRow) },
    analyses: { count: 1710, rows: entries.map(analysisRow) },
    requirements: { count: 7719, rows: entries.flatMap(requirementRows) },
    items: { count: 9618, rows: entries.flatMap(itemRows) },
    alerts: { count: 1670, rows: entries.flatMap(alertRows) },
  }
  for (const [table, { count, rows }] of Object.entries(expected)) {
    const actual = await published(latest, table)
    expect(actual, table).toHaveLength(count)
    expect(actual, table).toStrictEqual(inOrder(rows))
  }
  await expectRoundTrip(company)
})
