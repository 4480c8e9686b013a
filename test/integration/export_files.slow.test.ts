import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readXlsx, type Sheet } from 'hucre/xlsx'
import { expect, test } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { MARTS } from '#src/marts/marts.ts'
import { readMartSql } from '#src/marts/open.ts'
import { distinguishesOpen, inOrder, isForPeople, isTechnical } from '#src/present/text/cells.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { dayIn } from '#test/support/figures/calendar.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { companyDirectory, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

const FORMULA = '=HYPERLINK("http://evil.example";"clique")'
/** What a workbook reads as codes of characters. */
const CODES = ['a_x000D_b _x005F_ _X000D_ _x00_', '_x000D_x000A_\t<&>"'] as const
/** What Excel reads in a CSV file as a number or a date, but the last one, which it shows as it is. */
const NUMBERS = ['00394494000136', '12/2026', '3E5', '047/2024', '1.234,50', '90319']

const IMPLAUSIBLE = {
  data_sessao: '0001-01-01T00:00:00Z',
  committed_at: '9999-12-31T23:59:59-03:00',
  updated_at: '0206-05-04',
}

/** Notices whose values are awkward in a spreadsheet, among usual ones. */
async function published() {
  return await startSynced([
    ...notices(1, 3),
    noticeEntry(4, { status: 'discarded' }),
    noticeEntry(5, {
      objeto: FORMULA,
      orgao: `\t+cmd|' /C calc'!A0`,
      numero: '00123\r\nb',
      modalidade: `a;"b"\r\n${'x'.repeat(40_000)}`,
      valor_estimado: 1234567.89,
      data_sessao: '2026-12-10T09:30:00-03:00',
    }),
    noticeEntry(6, {
      objeto: 'um\uFFFEdois\uFFFFtrês\0quatro\u001bcinco\ud800seis',
      orgao: CODES[0],
      numero: CODES[1],
      modalidade: `${'x'.repeat(32_765)}😀😀`,
    }),
    ...NUMBERS.map((numero, index) =>
      noticeEntry(7 + index, { numero, data_sessao: `${dayIn(40 - index)}T09:00:00` }),
    ),
    noticeEntry(13, IMPLAUSIBLE),
  ])
}

test('a workbook has one sheet per mart, with typed values and Portuguese labels, as people read and print it', async () => {
  const { environment } = await published()
  const path = join(await temporaryDirectory(), 'editais.xlsx')
  const { code, stdout, stderr } = await runShared(['export', '--xlsx', '--to', path], environment)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^\/.*editais\.xlsx: 13 notices of acme, \d+ marts \(1 MB\)\n$/)

  const { sheets } = await readXlsx(await readFile(path))
  const names = sheets.map(({ name }) => name)
  expect(names.slice(0, 4)).toEqual([
    'Para decidir',
    'Agenda de sessões',
    'Pendências de habilitação',
    'Alertas jurídicos',
  ])
  expect(names.toSorted()).toEqual(['Sobre', ...MARTS.map(({ portuguese }) => portuguese[0])].sort())
  const marts = new Map(
    MARTS.map(({ name, portuguese }) => [name, sheets.find(sheet => sheet.name === portuguese[0])]),
  )
  for (const { name, columns } of MARTS)
    expect(marts.get(name)?.rows[0]).toEqual(columns.map(({ portuguese }) => portuguese[0]))
  const hidden = sheets.filter(sheet => sheet.hidden).map(({ name }) => name)
  expect(hidden).toContain('Calendário')
  expect(names.slice(-hidden.length)).toEqual(hidden)
  for (const { pageSetup } of sheets)
    expect(pageSetup).toMatchObject({ orientation: 'landscape', fitToWidth: 1, printTitlesRow: '$1:$1' })
  const [agenda] = MARTS.filter(({ name }) => name === 'agenda_sessoes')
  const seen = agenda?.columns.filter((_, index) => !marts.get('agenda_sessoes')?.columns?.[index]?.hidden)
  expect(seen?.map(({ name }) => name)).toEqual(expect.arrayContaining(['data_sessao_local', 'recomendacao']))
  for (const { name, type } of seen ?? [])
    expect([name, type]).not.toEqual(
      expect.arrayContaining(['edital_id', 'verdict_recommendation', 'TIMESTAMPTZ']),
    )
  const { columns = [] } = MARTS.find(({ name }) => name === 'editais_ativos') ?? {}
  const [, ...rows] = marts.get('editais_ativos')?.rows ?? []
  const row = rows.find(values => values.includes(FORMULA)) ?? []
  const values = Object.fromEntries(columns.map(({ name }, index) => [name, row[index]]))
  expect(values).toMatchObject({
    objeto: FORMULA,
    valor_estimado_informado: 1234567.89,
    em_andamento: 'sim',
    data_sessao_local: new Date('2026-12-10T09:30:00Z'),
    data_sessao_dia: new Date('2026-12-10T00:00:00Z'),
  })
  expect(values.modalidade).toMatch(/^a;"b" x+… \[texto cortado: 40007 bytes, sha256 [0-9a-f]{16}\]$/)
  expect(values.numero).toBe('00123\nb')
  // The rows are sorted: days from the first on, notices by session.
  const [, first, second] = marts.get('calendario')?.rows ?? []
  expect([first?.[0], second?.[0]]).toEqual([new Date('2010-01-01'), new Date('2010-01-02')])
  const session = columns.findIndex(({ name }) => name === 'data_sessao_local')
  const coming = rows.flatMap(values => {
    const at = Number(values[session] ?? 0)
    return at > Date.now() ? [at] : []
  })
  expect(coming).toEqual(coming.toSorted((a, b) => a - b))
  expect(new Set(coming).size).toBeGreaterThan(1)
  // Rows of notices on which nobody can act any more are below the printed ones.
  const summary = MARTS.find(({ name }) => name === 'edital_resumo')?.columns ?? []
  const [situation, open] = ['situacao_sessao', 'em_andamento'].map(name =>
    summary.findIndex(column => column.name === name),
  ) as [number, number]
  const [, ...notices] = marts.get('edital_resumo')?.rows ?? []
  const printed = notices.map(values => values[open] === 'sim' && values[situation] !== 'passada')
  expect(printed).toEqual(printed.toSorted((a, b) => Number(b) - Number(a)))
  const last = printed.lastIndexOf(true) + 2
  expect([last < notices.length + 1, last > 2]).toEqual([true, true])
  expect(marts.get('edital_resumo')?.pageSetup?.printArea).toMatch(
    new RegExp(`^\\$?A\\$?1:\\$?[A-Z]+\\$?${last}$`),
  )
  expect(marts.get('editais_ativos')?.pageSetup?.printArea).toBeUndefined()
  const [, ...news] = marts.get('novidades')?.rows ?? []
  const observed = MARTS.find(({ name }) => name === 'novidades')?.columns.findIndex(
    ({ name }) => name === 'observado_dia',
  )
  const recent = news.filter(values => Date.now() - Number(values[observed as number]) < 30 * 86_400_000)
  expect(recent.length).toBeLessThan(news.length)
  expect(marts.get('novidades')?.pageSetup?.printArea).toMatch(new RegExp(`\\$?${recent.length + 1}$`))
  for (const name of names) expect(name.length).toBeLessThan(32)
  // What XML does not allow is gone, codes stay texts, and nothing is cut within a character.
  const cells = rows.flat().filter(value => typeof value === 'string')
  const texts = ['umdoistrêsquatrocinco\uFFFDseis', ...CODES]
  expect(cells).toEqual(expect.arrayContaining([...texts, ...NUMBERS]))
  const years = sheets.flatMap(sheet =>
    sheet.rows.flat().flatMap(cell => (cell instanceof Date ? [cell.getUTCFullYear()] : [])),
  )
  expect([Math.min(...new Set(years)), Math.max(...new Set(years))]).toEqual([2010, 2060])
  expect(marts.get('mudancas')?.tables?.[0]).toMatchObject({ name: 'mudancas', showAutoFilter: true })
})

test('a workbook of 590 notices prints on 60 pages at most, each sheet as wide as the page', async () => {
  const world = generateWorld({ seed: 7, company: 'acme', notices: 590, start: new Date() })
  const company = await startCompany(world)
  await company.syncHere()
  for (const status of ['ready', 'analysis']) {
    const edital = { valor_estimado: status.length, status }
    for (const id of world.ids()) world.update(id, { edital, updatedAt: new Date() })
    await company.syncHere()
  }
  const path = join(await temporaryDirectory(), 'editais.xlsx')
  expect(await runShared(['export', '--xlsx', '--to', path], company.environment)).toMatchObject({ code: 0 })
  const { sheets } = await readXlsx(await readFile(path))
  const pages = sheets.filter(({ hidden }) => !hidden).map(sheet => [sheet.name, countPages(sheet)] as const)
  expect(pages.filter(([, count]) => count > 6)).toEqual([])
  expect(pages.reduce((sum, [, count]) => sum + count, 0)).toBeLessThanOrEqual(60)
})

/** The room on an A4 page in landscape, in points. LibreOffice needs up to a tenth fewer pages. */
const PAGE = { width: 798.7, height: 537.7 }
const LINE = 15

function countPages({ rows, columns = [], rowDefs, pageSetup }: Sheet): number {
  const last = /\d+$/.exec(pageSetup?.printArea ?? '')?.[0]
  const printed = last === undefined ? rows.length : Number(last)
  const shown = columns.filter(({ hidden }) => !hidden)
  const width = shown.reduce((sum, column) => sum + ((column.width ?? 8) * 7 + 5) * 0.75, 0)
  const scale = Math.min(1, PAGE.width / width)
  const heading = (rowDefs?.get(0)?.height ?? LINE) * scale
  return Math.max(1, Math.ceil(((printed - 1) * LINE * scale) / (PAGE.height - heading)))
}

test('each sheet of notices links to our pages, if the operator says where they are, and gone notices to PNCP', async () => {
  const pncp = 'https://pncp.gov.br/app/editais/1'
  const company = await startSynced([noticeEntry(1, { pncp_url: pncp }), noticeEntry(2, { pncp_url: pncp })])
  const later = { objeto: 'Outro', status: 'ready' }
  for (const id of [1, 2]) company.world.update(idOf(id), { edital: later, updatedAt: new Date() })
  await company.syncHere()
  company.world.remove(idOf(2))
  await company.syncHere()
  const path = join(await temporaryDirectory(), 'editais.xlsx')
  const environment = { ...company.environment, PAGES_URL: 'https://editais.example.com' }
  expect(await runShared(['export', '--xlsx', '--to', path], environment)).toMatchObject({ code: 0 })
  const { sheets } = await readXlsx(await readFile(path), { readStyles: true })
  const own = `https://editais.example.com/editais/${idOf(1)}`
  const find = (name: string) => {
    const mart = MARTS.find(one => one.name === name)
    const cells = sheets.find(sheet => sheet.name === mart?.portuguese[0])?.cells ?? new Map()
    return new Set([...cells.values()].flatMap(({ hyperlink }) => hyperlink?.target ?? []))
  }
  expect(find('edital_resumo')).toEqual(new Set([own]))
  for (const name of ['mudancas', 'transicoes_de_fase', 'novidades'])
    expect([name, find(name)]).toEqual([name, new Set([own, pncp])])
})

test('CSV files are in Brazilian form, and hold no formula', async () => {
  const company = await published()
  const directory = join(await temporaryDirectory(), 'novo/csv')
  const { code, stdout, stderr } = await runShared(
    ['export', '--csv', '--to', directory],
    company.environment,
  )
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const written = MARTS.filter(mart => !isTechnical(mart))
  expect(stdout).toBe(`${directory}: 13 notices of acme, ${written.length} marts\n`)
  expect(await readdir(directory)).toEqual(written.map(({ name }) => `${name}.csv`).sort())
  for (const { name } of written) {
    const file = await readFile(join(directory, `${name}.csv`), 'utf8')
    expect(file, name).not.toMatch(/\d\d\/\d\d\/(?:\d{1,3}\b|0\d{3}|[3-9]\d{3})|BC/)
  }
  const text = await readFile(join(directory, 'edital_resumo.csv'), 'utf8')
  expect(text).toMatch(/^\uFEFFCNPJ do órgão;Órgão;/)
  expect(text).toContain(';1234567,89;')
  expect(text).toContain(';10/12/2026 09:30;')
  expect(text).toContain(`"'=HYPERLINK(""http://evil.example"";""clique"")"`)
  expect(text).toContain(`;'+cmd|`)
  for (const numero of NUMBERS.slice(0, -1)) expect(text).toContain(`;"=""${numero}""";`)
  expect(text).toContain(';90319;')
  expect(text).toContain('xxx… [texto cortado: 32773 bytes')
  const list = NUMBERS.map(numero => `'${numero}'`).join(', ')
  const sql = `SELECT numero FROM editais WHERE numero IN (${list}) ORDER BY edital_id`
  const plain = await runShared(['query', '--csv', sql], company.environment)
  expect(plain.stdout.replaceAll('"', '').trim().split('\r\n')).toEqual(['numero', ...NUMBERS])
  expect(text).toMatch(/;"00123\r?\nb";/)

  const db = await Database.open(join(companyDirectory(company.environment), 'lake/latest/catalog.duckdb'), {
    readOnly: true,
  })
  for (const { name, columns: all } of written) {
    const columns = all.filter(column => isForPeople(column, false))
    const [money] = columns.filter(({ unit }) => unit === 'BRL')
    const sum = money ? `round(sum(round("${money.name}", 2)), 2)` : 'NULL'
    const expected = await db.rows(`SELECT count(*) AS n, ${sum} AS total FROM ${name}`)
    const read = `read_csv('${join(directory, `${name}.csv`)}', delim = ';', decimal_separator = ',', header = true, nullstr = '', auto_detect = false, quote = '"', columns = {${columns
      .map(column => `'${column.name}': '${column === money ? 'DOUBLE' : 'VARCHAR'}'`)
      .join(', ')}}, max_line_size = 1_000_000)`
    expect(await db.rows(`SELECT count(*) AS n, ${sum} AS total FROM ${read}`), name).toEqual(expected)
  }
  db.close()
})

test('a directory that cannot be created, and two forms at once, are refused with a sentence', async () => {
  const { environment } = await published()
  const file = join(await temporaryDirectory(), 'file')
  await writeFile(file, '')
  const refused = await runShared(['export', '--csv', '--to', join(file, 'csv')], environment)
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Name another directory with --to'),
  })
  const both = await runShared(['export', '--csv', '--xlsx', '--to', file], environment)
  expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('Use --xlsx or --csv, not both.') })
})

test('every mart is sorted in these files: by its own SQL, or as they say', async () => {
  for (const mart of MARTS) {
    const sql = await readMartSql(mart)
    const sortsItself = /^ORDER BY .*\n?$/m.test(sql.trim().split('\n').at(-1) ?? '')
    // One row per company has no order.
    if (mart.name !== 'frescor')
      expect([mart.name, inOrder(mart).includes('ORDER BY')]).toEqual([mart.name, !sortsItself])
    // Printed rows come first.
    if (distinguishesOpen(mart.columns)) expect(inOrder(mart)).toContain('ORDER BY company, (em_andamento')
  }
})
