import { expect, test } from 'vitest'
import { OUTCOMES } from '#schema/sync_runs.ts'
import { publishedColumns, syncRuns } from '#schema/tables.ts'
import { assertConserved, newReport } from '#src/core/company/run_report.ts'

test('a report has exactly the columns of sync_runs, in their order', () => {
  const columns = publishedColumns(syncRuns).map(({ name }) => name)
  expect(Object.keys(newReport('run', 'full', new Date()))).toEqual(
    columns.filter(name => name !== 'company'),
  )
})

test.each(OUTCOMES)('a listed notice may end as %s', outcome => {
  const report = { ...newReport('run', 'full', new Date()), listed: 1 }
  expect(() => assertConserved(report)).toThrow('1 notice listed, but 0 outcomes')
  assertConserved({ ...report, [outcome]: 1 })
})

test('a negative outcome is never balanced by another one', () => {
  const report = { ...newReport('run', 'full', new Date()), loaded: 1, failed: -1 }
  expect(() => assertConserved(report)).toThrow('0 notices listed')
})
