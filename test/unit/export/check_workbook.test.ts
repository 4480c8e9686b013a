import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeXlsx } from 'hucre/xlsx'
import { expect, onTestFinished, test } from 'vitest'
import { checkWorkbook } from '#src/extras/exports/check_workbook.ts'

async function check(bytes: Uint8Array, rows: readonly number[]): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'workbook-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const path = join(directory, 'a.xlsx')
  await writeFile(path, bytes)
  await checkWorkbook(path, rows)
}

const workbookOf = (...texts: readonly string[]) =>
  writeXlsx({ sheets: [{ name: 'A & <B>', rows: [['Um "título"'], [], ...texts.map(text => [text])] }] })

test('a workbook that programs can open passes, with its number of rows', async () => {
  const texts = ['a & b < c > d "e"', "'", ' x ', 'a\nb\tc', 'ção 😀', '', ']]>', '&amp; &#0;', '_x000D_']
  // An empty text is a row, an empty row is none.
  await check(await workbookOf(...texts), [10])
  // Larger than the pieces in which it is read, with characters of several bytes at their borders.
  const long = Array.from({ length: 50 }, (_, index) => 'ç😀<'.repeat(500 + index))
  await check(await workbookOf(...long), [51])
})

test('a workbook that programs cannot open, or with other rows, is refused', async () => {
  const message = 'The workbook cannot be opened, so it was not kept: '
  for (const text of ['\uFFFE', 'a\uFFFF'])
    await expect(check(await workbookOf(text), [2])).rejects.toThrow(
      `${message}xl/sharedStrings.xml: it has a character that XML does not allow. This is a bug`,
    )
  const whole = Buffer.from(await workbookOf('a', 'b'))
  await expect(check(whole, [2])).rejects.toThrow('xl/worksheets/sheet1.xml: 3 rows instead of 2')
  await expect(check(whole, [3, 1])).rejects.toThrow('xl/worksheets/sheet2.xml')
  await expect(check(whole.subarray(0, -30), [3])).rejects.toThrow('the archive has no end')
  // In the first part: it cannot be unpacked, or its checksum is another.
  for (const at of [60, 100, 200]) {
    const damaged = Buffer.from(whole)
    damaged.writeUInt8((damaged.at(at) as number) ^ 1, at)
    await expect(check(damaged, [3]), `byte ${at}`).rejects.toThrow(message)
  }
})
