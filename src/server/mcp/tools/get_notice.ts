import { z } from 'zod'
import { FatalError } from '#src/lib/errors.ts'
import type { Statement } from '#src/server/read/order.ts'
import { records } from '#src/server/read/order.ts'
import { MAX_BYTES, RECORDS, type Read, resultOf, type ToolResult, tool } from './tool.ts'

const MAX_TEXT = 2000
const LISTS = ['requirements', 'alerts', 'items'] as const
/** Elements of a list, beside the others or alone. */
const MAX_ELEMENTS = { beside: 40, alone: 100 }

const INPUT = z.strictObject({
  edital_id: z.string().min(1).max(200).describe('As search_notices and the marts show it.'),
  part: z
    .enum(['all', ...LISTS])
    .default('all')
    .describe('One list alone, if an earlier answer left some of it out.'),
  offset: z.int().min(0).max(1_000_000).default(0).describe('Elements of that list to skip.'),
})

type Input = z.output<typeof INPUT>
type List = (typeof LISTS)[number]

export const GET_NOTICE = tool({
  name: 'get_notice',
  scope: 'read',
  title: 'Read a notice with its analysis',
  description:
    'A notice with its analysis: verdict, overview, pricing, requirements, alerts (risks and opportunities) and items. Long texts and lists are cut; left_out states what is missing.',
  input: INPUT,
  output: {
    notice: { type: 'object', additionalProperties: true },
    analysis: { type: 'object', additionalProperties: true },
    ...Object.fromEntries(LISTS.map(list => [list, RECORDS])),
  },
  find: ({ part, ...input }, read) =>
    part === 'all' ? findAll(input, read) : findList({ ...input, part }, read),
})

async function findAll({ edital_id }: Pick<Input, 'edital_id'>, read: Read): Promise<ToolResult> {
  const answer = await ask(read, edital_id, [
    { sql: `SELECT ${LISTS.map(counted).join(', ')}`, maxRows: 1 },
    { sql: `SELECT * FROM edital_resumo ${OF}`, maxRows: 1 },
    { sql: `SELECT * FROM editais ${OF}`, maxRows: 1 },
    { sql: `SELECT * FROM analyses ${OF}`, maxRows: 1 },
    ...LISTS.map(list => elements(list, MAX_ELEMENTS.beside, 0)),
  ])
  const [counts, summary, stored, analysis, ...lists] = answer.results.map(records)
  const [summarized, kept] = [resultOf(answer, 1), resultOf(answer, 2)]
  if (kept.rows.length === 0 && !kept.isCut) throw unknownNotice()
  const found = LISTS.map((list, index) => [list, (lists[index] ?? []).map(withoutKeys)] as const)
  const leftOut = found.flatMap(([list, rows]) =>
    more(list, Number(counts?.[0]?.[list]) - rows.length, rows.length),
  )
  if (summarized.isCut || kept.isCut) leftOut.unshift('Some fields of the notice are too long to be shown.')
  if (resultOf(answer, 3).isCut) leftOut.unshift('The analysis itself is too long to be shown.')
  const data = { notice: { ...stored?.[0], ...summary?.[0] }, analysis: withoutKeys(analysis?.[0] ?? {}) }
  return { answer, data: { ...data, ...Object.fromEntries(found) }, leftOut }
}

async function findList(
  { edital_id, part, offset }: Omit<Input, 'part'> & { part: List },
  read: Read,
): Promise<ToolResult> {
  const answer = await ask(read, edital_id, [
    { sql: `SELECT ${counted(part)} FROM editais ${OF}`, maxRows: 1 },
    elements(part, MAX_ELEMENTS.alone, offset),
  ])
  const [counts, rows = []] = answer.results.map(records)
  if (counts?.length === 0) throw unknownNotice()
  const left = Number(counts?.[0]?.[part]) - offset - rows.length
  return {
    answer,
    data: { edital_id, offset, [part]: rows.map(withoutKeys) },
    leftOut: more(part, left, offset + rows.length),
  }
}

const OF = 'WHERE edital_id = $id'

function counted(list: List): string {
  return `(SELECT count(*) FROM ${list} ${OF}) AS ${list}`
}

function elements(list: List, maxRows: number, offset: number): Statement {
  return { sql: `SELECT * FROM ${list} ${OF} ORDER BY ordinal LIMIT ${maxRows} OFFSET ${offset}`, maxRows }
}

async function ask(read: Read, id: string, statements: readonly Statement[]) {
  return await read({
    statements: statements.map(statement => ({ ...statement, values: { id } })),
    isForeign: false,
    maxBytes: MAX_BYTES,
    maxText: MAX_TEXT,
  })
}

function more(list: List, left: number, offset: number): string[] {
  return left > 0 ? [`${left} more ${list}: use part ${list} with offset ${offset}.`] : []
}

/** Removes the keys of a row, which the notice has already. */
function withoutKeys({ company, edital_id, ...rest }: { readonly [name: string]: unknown }): object {
  return rest
}

function unknownNotice(): FatalError {
  return new FatalError('The company has no notice with this edital_id. search_notices finds notices.')
}
