import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseCsv } from 'hucre/csv'
import { readXlsx } from 'hucre/xlsx'
import { expect, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { composeMail } from '#src/extras/report/mail.ts'
import { renderLatestReport } from '#src/extras/report/page.ts'
import { MARTS } from '#src/marts/marts.ts'
import { openWithOurMarts } from '#src/marts/open.ts'
import { readCard, sqlFor } from '#src/present/questions.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { dayIn } from '#test/support/figures/calendar.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { readPage, serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'

/**
 * Everything that a person sees of a company in which anything can have changed: no code, no key of an object, and no date or
 * number as programs write it.
 */

/** What only programs write, as a whole cell, label or piece of text. */
const WHOLE = /^(?:-?\d+\.(?!\d{3}$)\d+|null|undefined|nan|true|false|[{[]["{[\d].*)$/i
/** What only programs write, wherever it is: dates, names with an underscore, and digits that nobody reads. */
const WITHIN = /\b\d{4}-\d\d-\d\d|\b[a-z]+_[a-z_]+\b|\b\d+\.\d{4,}\b|\d,\d{5,}|\[object /
/** Words of this program, and of statistics. */
const TECHNICAL = /\b(?:data ?marts?|marts?|snapshots?|instantâneos?|percent(?:il|is)|p\d\d)\b/i
const CARDS = join(import.meta.dirname, '../../config/metabase/cards')
const NOTICES_READ = 12

type Seen = SyncedCompany & { readonly lake: string; readonly isOfPrograms: (text: string) => boolean }

test('people see no code, no key of an object, and no date or number as programs write it', async () => {
  const company = await startChanged()
  expect({
    workbook: await readWorkbook(company),
    files: await readCsvFiles(company),
    downloads: await readDownloads(company),
    cards: await readCards(company),
    report: await readReport(company),
    prompt: await readAnswers(company),
    pages: await readPages(company),
  }).toEqual({ workbook: [], files: [], downloads: [], cards: [], report: [], prompt: [], pages: [] })
})

/** A company whose notices have changed in all that is followed. */
async function startChanged(): Promise<Seen> {
  const world = generateWorld({ seed: 5, company: 'acme', notices: 60, start: new Date() })
  const company = await startCompany(world)
  await company.syncHere()
  const random = createRandom(5)
  const later = (minutes: number) => new Date(Date.now() + minutes * 60_000)
  for (let minutes = 1; minutes <= 60; minutes += 1) tick(world, random, later(minutes))
  const changed = {
    valor_estimado: 1234.5,
    data_sessao: `${dayIn(3)}T09:30:00`,
    participation_confirmed: true,
  }
  for (const id of world.ids().slice(0, NOTICES_READ)) {
    const { overview, pricing } = world.entry(id)?.analysis ?? {}
    const analysis = {
      overview: { ...(overview as object), chave_livre: { outra_chave: true, prazo_em_dias: 1 / 3 } },
      pricing: { ...(pricing as object), margem_livre: 2 / 3, lista_livre: [{ data_livre: '2026-12-31' }] },
    }
    world.update(id, { edital: changed, analysis, updatedAt: later(61) })
  }
  await company.syncHere()
  const lake = companyPaths(company.environment.DATA_DIR as string, 'acme').lake
  const { db } = await openWithOurMarts(lake)
  const known = await db.rows<{ code: string }>(
    // A letter is also a unit of items.
    `SELECT codigo AS code FROM rotulos WHERE codigo NOT IN (SELECT rotulo FROM rotulos) AND length(codigo) > 1
     UNION SELECT status FROM fases`,
  )
  db.close()
  const codes = new Set(known.map(({ code }) => code))
  expect(codes).toContain('nao_recomendado')
  return {
    ...company,
    lake,
    isOfPrograms: text => codes.has(text) || [WHOLE, WITHIN, TECHNICAL].some(one => one.test(text)),
  }
}

/** The texts between the tags of a page, less what is marked as English: messages of programs, and code. */
function textsOf(page: string): string[] {
  return page
    .replaceAll(/<(style|script|svg)\b.*?<\/\1>/gs, '')
    .replaceAll(/<(\w+)[^<>]* lang="en"[^<>]*>.*?<\/\1>/gs, '')
    .replaceAll(/<code>.*?<\/code>/gs, '')
    .split(/<[^<>]*>/)
    .map(text => text.trim())
    .filter(Boolean)
}

/** Texts in drawings, which `textsOf` leaves out with their numbers of pixels. */
function drawnIn(page: string): string[] {
  return [...page.matchAll(/<text\b[^<>]*>([^<>]*)<\/text>/g)].map(([, text]) => text ?? '')
}

/** Lists what is wrong in a column: its label, or a cell. */
function findWrong(where: string, column: readonly unknown[], isOfPrograms: Seen['isOfPrograms']): string[] {
  const [label, ...cells] = column.map(cell => (typeof cell === 'string' ? cell : ''))
  if (/código|rótulo|\bID\b|UTC|\bErro\b/.test(String(label))) return [`${where}: ${label}`]
  return cells.filter(isOfPrograms).map(cell => `${where}, ${label}: ${cell}`)
}

/** Lists what is wrong in a CSV file, in which a text can be a formula that gives it. */
function findWrongInCsv(name: string, text: string, isOfPrograms: Seen['isOfPrograms']): string[] {
  const [labels = [], ...rows] = parseCsv(text, { delimiter: ';' })
  return labels.flatMap((label, index) => {
    const cells = rows.map(row => String(row[index] ?? '').replace(/^="(.*)"$|^'/s, '$1'))
    return findWrong(name, [label, ...cells], isOfPrograms)
  })
}

async function readCsvFiles({ environment, isOfPrograms }: Seen): Promise<string[]> {
  const directory = await temporaryDirectory()
  expect(await runShared(['export', '--csv', '--to', directory], environment)).toMatchObject({ code: 0 })
  const files = await readdir(directory)
  expect(files.length).toBeGreaterThan(20)
  const wrong: string[] = []
  for (const file of files)
    wrong.push(...findWrongInCsv(file, await readFile(join(directory, file), 'utf8'), isOfPrograms))
  return [...new Set(wrong)]
}

/** Reads what a search comes as: a table, a workbook and a calendar. */
async function readDownloads({ environment, isOfPrograms }: Seen): Promise<string[]> {
  const { url, keys } = await serveApi(environment)
  const get = async (file: string) => {
    const answer = await fetch(`${url}/editais/${file}`, {
      headers: { cookie: `editais_chave=${keys.acme}` },
    })
    expect(answer.status).toBe(200)
    return Buffer.from(await answer.arrayBuffer())
  }
  const { sheets } = await readXlsx(await get('lista.xlsx'))
  const [labels = [], ...rows] = sheets[0]?.rows ?? []
  expect(rows.length).toBeGreaterThan(NOTICES_READ)
  const read = labels.flatMap((label, index) =>
    findWrong('lista.xlsx', [label, ...rows.map(row => row[index])], isOfPrograms),
  )
  const calendar = (await get('calendario.ics')).toString().replaceAll('\r\n ', '')
  const shown = [...calendar.matchAll(/^(?:SUMMARY|DESCRIPTION|NAME)[:;](.*)$/gm)].map(([, text]) => text)
  expect(shown.length).toBeGreaterThan(10)
  return [
    ...findWrongInCsv('lista.csv', (await get('lista.csv')).toString(), isOfPrograms),
    ...read,
    ...findWrong('calendario.ics', ['', ...shown], isOfPrograms),
  ]
}

async function readWorkbook({ environment, isOfPrograms }: Seen): Promise<string[]> {
  const path = join(await temporaryDirectory(), 'editais.xlsx')
  expect(await runShared(['export', '--xlsx', '--to', path], environment)).toMatchObject({ code: 0 })
  const { sheets } = await readXlsx(await readFile(path), { readStyles: true })
  const seen = MARTS.flatMap(({ columns, portuguese: [name] }) => {
    const sheet = sheets.find(sheet => sheet.name === name)
    if (!sheet || sheet.hidden) return []
    return columns.flatMap((column, index) => {
      if (sheet.columns?.[index]?.hidden) return []
      const [label, ...cells] = sheet.rows.map(row => row[index] ?? null)
      return [{ name, column, label, cells, format: sheet.cells?.get(`1,${index}`)?.style?.numFmt }]
    })
  })
  const wrong = seen.flatMap(({ name, label, cells }) => findWrong(name, [label, ...cells], isOfPrograms))
  const about = sheets.find(({ name }) => name === 'Sobre')
  expect(about?.rows.length).toBeGreaterThan(MARTS.length)
  wrong.push(...(about?.rows ?? []).flatMap(row => findWrong('Sobre', ['', ...row], isOfPrograms)))
  const computed = seen.filter(({ column: { type, from } }) => type === 'DOUBLE' && from === undefined)
  expect([...new Set(computed.flatMap(({ format }) => format ?? []))].sort()).toEqual(['#,##0.0', '#,##0.00'])
  const [moved] = seen.filter(({ column }) => column.name === 'para_rotulo')
  expect(moved?.cells).toEqual(
    expect.arrayContaining(['R$ 1.234,50', expect.stringMatching(/^\d\d\/\d\d\/\d{4} 09:30$/), 'sim']),
  )
  return [...new Set(wrong)]
}

async function readCards({ lake, isOfPrograms }: Seen): Promise<string[]> {
  const { db } = await openWithOurMarts(lake)
  const wrong: string[] = []
  let cells = 0
  for (const file of await readdir(CARDS)) {
    const card = await readCard(file.replace('.sql', ''))
    const labels = [...card.sql.matchAll(/ AS "([^"]+)"/g)].map(([, label]) => label ?? '')
    const texts = [card.name, ...card.description.split(/[.;:]\s/), ...labels]
    wrong.push(...texts.filter(isOfPrograms).map(text => `${file}: ${text}`))
    for (const row of await db.rows(sqlFor(card, new Set()))) {
      for (const [name, value] of Object.entries(row)) {
        cells += 1
        if (typeof value === 'boolean' || (typeof value === 'string' && isOfPrograms(value)))
          wrong.push(`${file}, ${name}: ${value}`)
      }
    }
  }
  db.close()
  const texts = DASHBOARDS.flatMap(({ name, description }) => [name, ...description.split(/[.;:]\s/)])
  wrong.push(...texts.filter(isOfPrograms))
  expect(cells).toBeGreaterThan(1000)
  return wrong
}

async function readReport({ lake, isOfPrograms }: Seen): Promise<string[]> {
  const now = new Date()
  const report = await renderLatestReport(lake, { now, pagesUrl: null })
  const texts = [...textsOf(report), ...drawnIn(report)]
  expect(texts.length).toBeGreaterThan(500)
  for (const span of ['day', 'week'] as const) {
    const { subject, text, html } = await composeMail(lake, span, { now, pagesUrl: null })
    // An address is opened, not read.
    const lines = text.split('\n').map(line => line.replace(/ https:\S+$/, ''))
    texts.push(subject, ...lines, ...textsOf(html))
  }
  return texts.filter(isOfPrograms)
}

async function readAnswers({ environment, isOfPrograms }: Seen): Promise<string[]> {
  const wrong: string[] = []
  for (const file of await readdir(CARDS)) {
    const { stdout } = await runShared(['ask', file.replace('.sql', '')], environment)
    const cells = stdout.split('\n').flatMap(line => line.split(/ {2,}|│/))
    wrong.push(...cells.filter(cell => isOfPrograms(cell.trim())).map(cell => `${file}: ${cell}`))
  }
  return wrong
}

async function readPages({ environment, world, isOfPrograms }: Seen): Promise<string[]> {
  const served = await serveApi(environment)
  const changed = world.ids().slice(0, NOTICES_READ)
  const wrong: string[] = []
  for (const path of ['/hoje', '', '?q=a', ...changed.map(id => `/${id}`)]) {
    const texts = textsOf(await readPage(served, `/editais${path}`))
    expect(texts.length, path).toBeGreaterThan(20)
    wrong.push(...texts.filter(isOfPrograms).map(text => `${path}: ${text}`))
  }
  return [...new Set(wrong)]
}
