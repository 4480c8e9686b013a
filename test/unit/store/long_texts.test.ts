import { describe, expect, it } from 'vitest'
import { MAX_ROW_BYTES } from '#src/core/warehouse/cut.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import {
  analysisLine,
  noticeLine,
  openWarehouseCase,
  touchedBy,
  type WarehouseCase,
} from '#test/support/warehouse.ts'

const LONG = 'objeto muito longo '.repeat(100_000)

/** The whole documents, from their parts. */
async function wholeDocuments({ db }: WarehouseCase): Promise<Record<string, unknown>> {
  const rows = await db.rows<{ id: string; document: string; text: string; longest: number }>(
    `SELECT edital_id AS id, document, string_agg(content, '' ORDER BY ordinal) AS text, max(strlen(content)) AS longest
     FROM whole_documents GROUP BY ALL ORDER BY ALL`,
  )
  for (const { longest } of rows) expect(longest).toBeLessThanOrEqual(MAX_ROW_BYTES)
  return Object.fromEntries(rows.map(({ id, document, text }) => [`${document} ${id}`, JSON.parse(text)]))
}

describe('texts that a table cannot carry', () => {
  it('are cut in every table, and the document is there as a whole', async () => {
    const warehouse = await openWarehouseCase()
    const long = noticeEntry(1, { objeto: LONG }, { verdict: { reason: LONG } })
    await warehouse.apply(noticeLine(long), analysisLine(long), noticeLine(noticeEntry(2)))
    for (const [table, column] of [
      ['editais', 'objeto'],
      ['edital_versions', 'objeto'],
      ['analyses', 'verdict_reason'],
      ['analysis_versions', 'verdict_reason'],
    ])
      expect(
        await warehouse.db.row(
          `SELECT max(strlen(${column})) AS longest, max(${column}) FILTER (edital_id = '${idOf(1)}') AS cut FROM ${table}`,
        ),
        table,
      ).toMatchObject({
        longest: expect.toSatisfy((bytes: number) => bytes <= MAX_ROW_BYTES),
        cut: expect.stringMatching(/^objeto muito longo .*\[texto cortado: 1900000 bytes/),
      })
    const whole = await wholeDocuments(warehouse)
    expect(whole).toEqual({ [`notice ${idOf(1)}`]: long.edital, [`analysis ${idOf(1)}`]: long.analysis })
  })

  it('are whole no more if they become short, and their month is published again', async () => {
    const warehouse = await openWarehouseCase()
    const long = noticeEntry(1, { objeto: LONG })
    const first = await warehouse.apply(noticeLine(long))
    expect(
      (await touchedBy(warehouse, first.segment))['2026-11'] ??
        Object.values(await touchedBy(warehouse, first.segment))[0],
    ).toContain('whole_documents')
    const { segment } = await warehouse.apply(noticeLine(noticeEntry(1)))
    expect(await wholeDocuments(warehouse)).toEqual({})
    expect(Object.values(await touchedBy(warehouse, segment)).flat()).toContain('whole_documents')
    const later = await warehouse.apply(noticeLine(noticeEntry(1, { status: 'ready' })))
    expect(Object.values(await touchedBy(warehouse, later.segment)).flat()).not.toContain('whole_documents')
  })

  it('are a change if they differ only beyond the cut', async () => {
    const warehouse = await openWarehouseCase()
    await warehouse.apply(noticeLine(noticeEntry(1, { objeto: `${LONG}a` })))
    const changes = async () =>
      (
        await warehouse.db.row(
          'SELECT count(*) FILTER (l.list_fields <> e._list_fields) AS changed FROM listed l JOIN editais e USING (edital_id)',
        )
      ).changed
    await warehouse.list(noticeEntry(1, { objeto: `${LONG}a` }))
    expect(await changes()).toBe(0)
    await warehouse.list(noticeEntry(1, { objeto: `${LONG}b` }))
    expect(await changes()).toBe(1)
  })
})
