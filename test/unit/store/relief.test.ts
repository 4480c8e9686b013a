import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { createRelief } from '#src/core/warehouse/warehouse.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { noticeLine, openWarehouseCase } from '#test/support/warehouse.ts'

const MEGABYTE = 1024 * 1024

async function openCase() {
  const directory = await temporaryDirectory()
  const options = { threads: 1, temporaryDirectory: join(directory, 'tmp') }
  const db = await Database.openProjection(join(directory, 'warehouse.duckdb'), options)
  onTestFinished(() => db.close())
  let checkpoints = 0
  observeSteps((step, when) => {
    if (step === 'warehouse.checkpoint' && when === 'after') checkpoints += 1
  })
  onTestFinished(() => observeSteps(null))
  const warehouse = await openWarehouseCase({}, db)
  const apply = async (from: number, count: number, objeto: string) =>
    await warehouse.apply(
      ...Array.from({ length: count }, (_, n) => noticeLine(noticeEntry(from + n, { objeto }))),
    )
  return { warehouse, db, apply, checkpoints: () => checkpoints }
}

// DuckDB accounts for longer ones elsewhere.
test.each([500, 5000])(
  'rows with texts of %i bytes become durable when they take too much memory',
  async length => {
    const { warehouse, apply, checkpoints } = await openCase()
    const relieve = createRelief(warehouse, 4 * MEGABYTE)
    const count = Math.ceil((5 * MEGABYTE) / length / 2)
    await apply(1, 100, 'short')
    await relieve()
    expect(checkpoints()).toBe(0)
    // Of each notice, one row and one version.
    await apply(101, count, 'x'.repeat(length))
    await relieve()
    expect(checkpoints()).toBe(1)
    await relieve()
    expect(checkpoints()).toBe(1)
  },
)

test('memory that a checkpoint does not free is not counted again', async () => {
  const { warehouse, db, checkpoints } = await openCase()
  await db.run(`CREATE TEMP TABLE list AS SELECT repeat(md5(range::VARCHAR), 10) AS text FROM range(20000)`)
  const relieve = createRelief(warehouse, 4 * MEGABYTE)
  for (let segment = 0; segment < 3; segment += 1) await relieve()
  expect(checkpoints()).toBe(1)
})
