import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { writeXlsx } from 'hucre/xlsx'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { CSV_TEXT_MACROS } from '#src/extras/exports/command.ts'
import { checkWorkbook } from '#src/extras/exports/workbook.ts'
import { cutText, MAX_CELL_TEXT } from '#src/present/text/cells.ts'

let db: Database
beforeAll(async () => {
  db = await Database.open(':memory:', { threads: 1 })
  for (const macro of CSV_TEXT_MACROS) await db.run(macro)
})
afterAll(() => db.close())

/** The texts as they are in a CSV file. */
async function written(texts: readonly string[]): Promise<string[]> {
  const rows = await db.rows<{ text: string }>(
    `SELECT unnest(csv_texts(from_json($texts::JSON, '["VARCHAR"]'))) AS text`,
    { texts: JSON.stringify(texts) },
  )
  return rows.map(({ text }) => text)
}

/** Each was converted by LibreOffice 7.4 in Portuguese or English, or is by Excel. */
const CONVERTED = [
  ...['00394494000136', '42498733000148', '002', '00', '123456789012', '12345678901234567890'],
  ...[
    '3E5',
    '1e-5',
    '1 E 5',
    '1,5',
    '1.234',
    '1.234,50',
    '12 345',
    '1\u00a0234',
    '.5',
    '5.',
    '-5',
    '+5',
    '(5)',
    '5-',
  ],
  ...[
    'R$ 10',
    'R$ 1.234,50',
    '10 R$',
    'US$ 5',
    '€10',
    '10 €',
    'BRL 5',
    '-R$ 5',
    '5%',
    '1,5 %',
    '%5',
    '+55 11 99999',
  ],
  ...[
    '12/2026',
    '1-2',
    '1/2',
    '1 1/2',
    '1/2/2026',
    '01-02-2026',
    '9.12.2026',
    '2026-12-09',
    '2026/12',
    '001/2026',
  ],
  ...[
    'mar-26',
    'dez/2026',
    '9 dez',
    '9-dez-26',
    'SEPT2',
    'março de 2026',
    '9 de dezembro de 2026',
    'Dec 9, 2026',
  ],
  ...[
    'qua, 9/12/2026',
    'quarta-feira, 9 de dezembro de 2026',
    '10:30',
    '9:00:15,5',
    '24:00:00',
    '10 am',
    '10 A',
  ],
  ...['31/12/2026 10:30', '10:30 31/12/2026', '2026-12-10T09:00:00', '2026-12-10T09:00:00-03:00'],
  ...[
    'VERDADEIRO',
    'falso',
    'TRUE',
    'False',
    ' true',
    '#N/D',
    '#REF!',
    '#DIV/0!',
    ' 00123 ',
    '\u202f00123',
    '\t12/2026',
  ],
]

test('texts that programs would convert are written so that they stay texts', async () => {
  expect(await written(CONVERTED)).toEqual(CONVERTED.map(text => `="${text}"`))
  // A formula has no line breaks in LibreOffice, and at most 255 characters of text in Excel.
  const other = ['12/2026\n', '\r\n00123', '0'.repeat(256)]
  expect(await written(other)).toEqual(other.map(text => `'${text}`))
})

test('texts that no program converts are written as they are', async () => {
  const same = [
    ...[
      '',
      ' ',
      'a',
      '0',
      '7',
      '90319',
      '12345678901',
      'PCE 143',
      '90319/2026',
      '12.345.678/0001-90',
      '5 km',
      '1ª',
    ],
    ...[
      '00394494000136-1-000123/2026',
      '42498733000148-2025-1053',
      '12ABC34501DE35-2026-15',
      '10h30',
      "'5",
      '_x000D_',
    ],
    ...[
      'maio',
      'Sexta-feira',
      'setor 5',
      'https://pncp.gov.br/app/editais/1',
      '9 de dezembro de 2026 e 3',
      'n00003',
    ],
    ...['Aquisição de 3 caminhões', 'verdadeiros', 'a\nb', '5.0 GHz', '😀'],
  ]
  expect(await written(same)).toEqual(same)
})

test('an apostrophe precedes what could be a formula, whatever is before it', async () => {
  const formulas = [
    '=1+1',
    ' =1',
    '\n=1',
    '\u00a0=1',
    '\u200b=1',
    '\u2028=1',
    '+a',
    '-a',
    '@SUM(1)',
    '＝1',
    '-1+2',
    '=5',
  ]
  expect(await written(formulas)).toEqual(formulas.map(text => `'${text}`))
})

test('characters that no file for people has are left out, and long texts are cut as in the workbook', async () => {
  expect(await written(['a\0b\uFFFEc\uFFFFd\u001be\u007ff'])).toEqual(['abcde\u007ff'])
  const texts = [
    ...[
      'x'.repeat(MAX_CELL_TEXT),
      'x'.repeat(MAX_CELL_TEXT + 1),
      '😀'.repeat(20_000),
      'ç'.repeat(MAX_CELL_TEXT),
    ],
    ...[
      `x${'😀'.repeat(20_000)}`,
      `${'x'.repeat(MAX_CELL_TEXT - 2)}😀`,
      `${'x'.repeat(MAX_CELL_TEXT - 1)}😀`,
    ],
    `${'😀'.repeat(16_383)}x`,
  ]
  const cut = await written(texts)
  expect(cut.map(text => text.length)).toEqual(texts.map(text => cutText(text).length))
  expect(cut).toEqual(texts.map(cutText))
  const [formula = ''] = await written([`=${'x'.repeat(MAX_CELL_TEXT)}`])
  expect([formula.length, formula.slice(0, 3), formula.at(-1)]).toEqual([MAX_CELL_TEXT, "'=x", '…'])
})

test('whatever a text is, it can be read again, and starts a formula only as that text', async () => {
  const pieces = [
    '0',
    '12',
    '2026',
    '/',
    '-',
    ',',
    '.',
    ':',
    ' ',
    'R$',
    '%',
    'e',
    'mar',
    'de',
    'am',
    '"',
    "'",
    ';',
    '=',
    '\n',
  ]
  const text = fc.array(fc.oneof(fc.constantFrom(...pieces), fc.string({ unit: 'grapheme', maxLength: 3 })), {
    maxLength: 8,
  })
  const texts = fc.array(
    text.map(all => all.join('')),
    { minLength: 200, maxLength: 200 },
  )
  await fc.assert(
    fc.asyncProperty(texts, async given => {
      for (const [index, one] of (await written(given)).entries()) {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: no file has them
        const clean = (given[index] as string).replace(/[\0-\x08\v\f\x0e-\x1f\uFFFE\uFFFF]/g, '')
        expect([clean, `'${clean}`, `="${clean}"`]).toContain(one)
        if (one === `="${clean}"`) expect(clean).not.toMatch(/["\n\r]/)
        else expect(one).not.toMatch(/^[\s=+@-]*[=@]/)
      }
    }),
    { numRuns: 5 },
  )
})

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
  // An empty text makes a row; an empty row does not.
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
