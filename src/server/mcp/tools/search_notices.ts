import { z } from 'zod'
import { RECOMMENDATIONS } from '#schema/analysis.ts'
import { STATUSES } from '#schema/notice.ts'
import { cleanText, textKey } from '#schema/text_key.ts'
import { FatalError } from '#src/lib/errors.ts'
import { records } from '#src/server/read/order.ts'
import { identified, MAX_BYTES, RECORDS, resultOf, type SqlCondition, tool } from './tool.ts'

const MAX_ROWS = 50
const MAX_WORDS = 8
const MAX_TEXT = 600
const DAY = z.iso.date()

const INPUT = z.strictObject({
  text: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe(
      `Words, at most ${MAX_WORDS}, that must all be in the object, buyer or number, also as parts of words; or a CNPJ, or an identifier of the national portal. Accents and case do not matter; forms of a word do, so give the part that they share: "medic" finds medicamento and medicamentos.`,
    ),
  uf: z
    .string()
    .overwrite(cleanText)
    .regex(/^[A-Za-z]{2}$/)
    .optional()
    .describe('State of the buyer, such as SP.'),
  status: z.array(z.enum(STATUSES)).max(STATUSES.length).optional().describe('Phases in the company.'),
  verdict: z
    .array(z.enum(RECOMMENDATIONS))
    .max(RECOMMENDATIONS.length)
    .optional()
    .describe('Recommendation of the analysis.'),
  session_from: DAY.optional().describe('First local day of the session, as 2026-12-31.'),
  session_to: DAY.optional().describe('Last local day of the session.'),
  min_value: z.number().min(0).optional().describe('Estimated value in BRL, at least.'),
  max_value: z.number().min(0).optional().describe('Estimated value in BRL, at most.'),
  limit: z.int().min(1).max(MAX_ROWS).default(20).describe('Notices to return.'),
  offset: z.int().min(0).max(100_000).default(0).describe('Notices to skip.'),
})

const COLUMNS = `edital_id, numero, orgao, uf, modalidade, objeto, status, fase, participation_confirmed,
  valor_estimado_informado, data_sessao_local, situacao_sessao, dias_ate_sessao, ultimo_dia_impugnacao, dias_ate_impugnacao,
  verdict_recommendation, recomendacao, requisitos_vermelhos, alertas_criticos, analysis_state`

/** Coming sessions first, the nearest first; then past ones, then notices without a session. */
const ORDER = "situacao_sessao = 'futura' DESC NULLS LAST, abs(dias_ate_sessao) NULLS LAST, edital_id"

type Search = Omit<z.output<typeof INPUT>, 'limit' | 'offset'>

export const SEARCH_NOTICES = tool({
  name: 'search_notices',
  scope: 'read',
  title: 'Search notices',
  description:
    'Finds live tender notices of the company: coming sessions first, the nearest first. Each has its key figures; get_notice reads one with its analysis.',
  input: INPUT,
  output: { total: { type: 'integer', description: 'Notices that match.' }, notices: RECORDS },
  async find({ limit, offset, ...search }, read) {
    const conditions = conditionsOf(search)
    const where = ['true', ...conditions.map(({ sql }) => sql)].join(' AND ')
    const answer = await read({
      statements: [
        {
          // One row even if the page is empty: it has the number of all.
          sql: `WITH found AS MATERIALIZED (SELECT ${COLUMNS} FROM edital_resumo WHERE ${where})
            SELECT page.*, total FROM (SELECT count(*) AS total FROM found)
            LEFT JOIN (FROM found ORDER BY ${ORDER} LIMIT ${limit} OFFSET ${offset}) AS page ON true
            ORDER BY ${ORDER}`,
          values: Object.assign({}, ...conditions.map(({ values }) => values)),
          maxRows: limit,
        },
      ],
      isForeign: false,
      maxBytes: MAX_BYTES,
      maxText: MAX_TEXT,
    })
    const rows = records(resultOf(answer, 0))
    const total = Number(rows[0]?.total)
    const notices = rows
      .filter(({ edital_id }) => edital_id !== undefined)
      .map(({ total: _, ...rest }) => rest)
    const end = offset + notices.length
    const more = notices.length > 0 ? total - end : 0
    const leftOut = more > 0 ? [`${more} more notices: use offset ${end}, or narrower filters.`] : []
    return { answer, data: { total, notices }, leftOut }
  },
})

function conditionsOf(search: Search): SqlCondition[] {
  const { text, uf, status, verdict, session_from, session_to, min_value, max_value } = search
  const given: (SqlCondition | null)[] = [
    text === undefined ? null : matching(text),
    uf === undefined ? null : { sql: 'chave(uf) = chave($uf)', values: { uf } },
    status === undefined ? null : oneOf('status', status),
    verdict === undefined ? null : oneOf('verdict_recommendation', verdict),
    compared('data_sessao_dia >= $from::DATE', 'from', session_from),
    compared('data_sessao_dia <= $to::DATE', 'to', session_to),
    compared('valor_estimado_informado >= $min::DOUBLE', 'min', min_value),
    compared('valor_estimado_informado <= $max::DOUBLE', 'max', max_value),
  ]
  return given.filter(one => one !== null)
}

/** Returns a condition that every word of a text is somewhere in the texts of a notice, or identifies it. */
function matching(text: string): SqlCondition {
  const words = textKey(text).split(' ').filter(Boolean)
  if (words.length > MAX_WORDS)
    throw new FatalError(
      `text has ${words.length} words; at most ${MAX_WORDS} are allowed. Use the most specific ones.`,
    )
  // Nothing in it is visible.
  if (words.length === 0) return { sql: 'false', values: {} }
  const texts = "chave(concat_ws(' ', objeto, orgao, numero, pncp_id, edital_id))"
  const conditions = words.map((word, index) => {
    const name = `word${index}`
    const other = identified(word, name)
    return {
      sql: `(contains(${texts}, $${name})${other ? ` OR ${other.sql}` : ''})`,
      values: { [name]: word, ...other?.values },
    }
  })
  return {
    sql: conditions.map(({ sql }) => sql).join(' AND '),
    values: Object.assign({}, ...conditions.map(({ values }) => values)),
  }
}

function oneOf(column: string, values: readonly string[]): SqlCondition {
  const names = values.map((_, index) => `${column}${index}`)
  return {
    sql: `${column} IN (${['NULL', ...names.map(name => `$${name}`)].join(', ')})`,
    values: Object.fromEntries(names.map((name, index) => [name, values[index] as string])),
  }
}

function compared(sql: string, name: string, value: string | number | undefined): SqlCondition | null {
  return value === undefined ? null : { sql, values: { [name]: String(value) } }
}
