import { z } from 'zod'
import { RECOMMENDATIONS } from '#schema/analysis.ts'
import { STATUSES } from '#schema/notice.ts'
import { cleanText } from '#schema/text_key.ts'
import { FatalError } from '#src/lib/errors.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { makeRecords, type ReadRecord, type Statement } from '#src/server/read/order.ts'
import { SEARCH_ORDERS, type SearchPage, searchPage } from '#src/server/search_page.ts'
import { getResult, type List, tool } from './tool.ts'

/** The tools that find notices and read one. */

const DAY = z.iso.date()
const MAX_FOUND = 50

const SEARCH = z.strictObject({
  q: z
    .string()
    .min(1)
    .max(500)
    .optional()
    .describe(
      'Words that must all be there, in any form, without regard to accents and case: in object and buyer, in number, CNPJ and identifier at the national portal, in items and requirements. "a phrase" of object or buyer; medic* for the beginning of a word.',
    ),
  uf: z
    .string()
    .overwrite(cleanText)
    .regex(/^[A-Za-z]{2}( ?, ?[A-Za-z]{2})*$/)
    .optional()
    .describe('States of the buyer, such as SP, with commas between them.'),
  modalidade: z
    .array(z.string().min(2).max(100))
    .max(10)
    .optional()
    .describe('Modalities; some of the words of one are enough, such as "pregao".'),
  status: z.array(z.enum(STATUSES)).max(STATUSES.length).optional().describe('Phases in the company.'),
  verdict: z
    .array(z.enum(RECOMMENDATIONS))
    .max(RECOMMENDATIONS.length)
    .optional()
    .describe('Recommendations of the analysis.'),
  session_from: DAY.optional().describe('First local day of the session, as 2026-12-31.'),
  session_to: DAY.optional().describe('Last local day of the session.'),
  value_min: z.number().min(0).optional().describe('Estimated value in BRL, at least.'),
  value_max: z.number().min(0).optional().describe('Estimated value in BRL, at most.'),
  updated_from: DAY.optional().describe(
    'Notices that changed on that day or since. list_news says what changed.',
  ),
  sort: z
    .enum(SEARCH_ORDERS as [string, ...string[]])
    .optional()
    .describe(
      'By default relevance with q, and next without: sessions to come, the nearest first, then past ones. A minus in front is descending.',
    ),
  limit: z.int().min(1).max(MAX_FOUND).default(20).describe('Notices to return.'),
  cursor: z
    .string()
    .max(400)
    .optional()
    .describe('From left_out of the answer before, with the same parameters.'),
})

const FOUND = `edital_id, numero, orgao, uf, modalidade, left(objeto, 240) AS objeto, status, fase, participation_confirmed,
  valor_estimado_informado, data_sessao_local, situacao_sessao, dias_ate_sessao, ultimo_dia_impugnacao, dias_ate_impugnacao,
  verdict_recommendation, recomendacao, requisitos_vermelhos, alertas_criticos`

export const SEARCH_NOTICES = tool({
  name: 'search_notices',
  scope: 'read',
  title: 'Search notices',
  description:
    'Finds live tender notices of the company, with their key figures; get_notice reads one with its analysis. For a buyer whose name is not known exactly, find_buyers first.',
  input: SEARCH,
  async find({ sort, uf, ...search }, { read, searched }) {
    const order = sort ?? (search.q === undefined ? 'next' : 'relevance')
    const { ids, ...page } = await found(await searched(), { ...search, uf: uf?.split(','), sort: order })
    const answer = await read([byIds(FOUND, ids)])
    const rows = new Map(makeRecords(getResult(answer, 0)).map(row => [String(row.edital_id), row]))
    const notices = ids.map(id => rows.get(id)).filter(row => row !== undefined)
    const more = (shown: number) => {
      const last = ids.indexOf(String(notices[shown - 1]?.edital_id))
      return `More notices match: use cursor ${page.cursorAfter(last < 0 ? ids.length : last + 1)}.`
    }
    return {
      source: answer,
      data: { total: page.total },
      lists: [{ name: 'notices', rows: notices, isCut: page.next !== null, more }],
    }
  },
})

/** Searches. @throws FatalError with a sentence for the client. */
async function found(...search: Parameters<typeof searchPage>): Promise<SearchPage> {
  try {
    return await searchPage(...search)
  } catch (error) {
    throw error instanceof Refusal ? new FatalError(error.message) : error
  }
}

function byIds(columns: string, ids: readonly string[]): Statement {
  const names = ids.map((_, index) => `$id${index}`)
  return {
    sql: `SELECT ${columns} FROM edital_resumo WHERE edital_id IN (${['NULL', ...names].join(', ')})`,
    values: Object.fromEntries(ids.map((id, index) => [`id${index}`, id])),
    maxRows: MAX_FOUND,
  }
}

const PARTS = ['requirements', 'alerts', 'items'] as const
type Part = (typeof PARTS)[number]
/** Elements of a list, beside the others or alone. */
const MAX_ELEMENTS = { beside: 40, alone: 200 }
/** The order of each list: elements that need attention come first. */
const ORDERED: Readonly<Record<Part, string>> = {
  requirements: "list_position(['red', 'yellow', 'green'], status) NULLS LAST, ordinal",
  alerts: "list_position(['critical', 'high', 'medium', 'low'], severity) NULLS LAST, ordinal",
  items: 'ai_selected DESC NULLS LAST, ordinal',
}

const NOTICE = z.strictObject({
  edital_id: z.string().min(1).max(200).describe('As search_notices and the marts show it.'),
  part: z
    .enum(['all', 'analysis', ...PARTS])
    .default('all')
    .describe('The whole analysis, or one list alone: what an earlier answer left out.'),
  offset: z.int().min(0).max(1_000_000).default(0).describe('Elements of that list to skip.'),
})

export const GET_NOTICE = tool({
  name: 'get_notice',
  scope: 'read',
  title: 'Read a notice with its analysis',
  description:
    'A notice with its analysis: verdict and its reasons, deadlines, values, requirements (red ones first), alerts (risks and opportunities, the gravest first) and items (those to bid for first).',
  input: NOTICE,
  async find({ edital_id: id, part, offset }, { read }) {
    const lists = PARTS.filter(list => part === 'all' || part === list)
    const maxRows = part === 'all' ? MAX_ELEMENTS.beside : MAX_ELEMENTS.alone
    const answer = await read(
      [
        {
          sql: `SELECT ${['edital_id', ...lists.map(countParts)].join(', ')} FROM editais ${OF}`,
          maxRows: 1,
        },
        { sql: `SELECT ${SUMMARY} FROM edital_resumo ${OF}`, maxRows: 1 },
        { sql: `SELECT ${part === 'analysis' ? '*' : VERDICT} FROM analyses ${OF}`, maxRows: 1 },
        ...lists.map(list => elements(list, maxRows, offset)),
      ].map(statement => ({ ...statement, values: { id } })),
    )
    const [[counts] = [], [summary] = [], [analysis] = [], ...rows] = answer.results.map(makeRecords)
    if (!counts)
      throw new FatalError('The company has no notice with this edital_id. search_notices finds notices.')
    const asLists = lists.map((list, index): List => {
      const own = (rows[index] ?? []).map(withoutKeys)
      const left = (shown: number) => Number(counts[list]) - offset - shown
      const more = (shown: number) =>
        `${left(shown)} more ${list}: use part ${list} with offset ${offset + shown}.`
      return { name: list, rows: own, isCut: left(own.length) > 0, more }
    })
    const notice = { edital_id: id, ...summary }
    const about = { analysis: withoutKeys(analysis ?? {}) }
    return {
      source: answer,
      ...(part === 'all' ? { objects: { notice, ...about } } : { data: { edital_id: id } }),
      ...(part === 'analysis' && { objects: about }),
      lists: asLists,
    }
  },
})

const OF = 'WHERE edital_id = $id'

/** The columns of a notice, the most important first: without room, the last are left out. */
const SUMMARY = `numero, orgao, uf, objeto, fase, recomendacao, data_sessao_local, dias_ate_sessao, ultimo_dia_impugnacao,
  dias_ate_impugnacao, regra_impugnacao, certeza_impugnacao, ultimo_dia_esclarecimento, regra_esclarecimento,
  certeza_esclarecimento, valor_estimado_informado, participation_confirmed, requisitos, requisitos_vermelhos,
  requisitos_amarelos, alertas, alertas_criticos, alertas_altos, itens, itens_selecionados, itens_selecionados_valor,
  investimento_total, garantia_proposta, garantia_contratual, margem_min, margem_max, risco_pagamento_rotulo, registro_de_precos,
  modalidade, orgao_cnpj, pncp_id, pncp_url, nivel_analise, analysis_state, discard_reason, atualizado_local, confirmado_local`
const VERDICT = `verdict_recommendation, verdict_reason, verdict_summary, verdict_bullets, overview_restricoes_participacao,
  overview_atestado_capacidade_exigido, overview_visita_tecnica_obrigatoria, overview_exclusivo_me_epp, overview_locais_entrega,
  overview_lei_aplicavel, pricing_sigiloso`

function countParts(list: Part): string {
  return `(SELECT count(*) FROM ${list} ${OF}) AS ${list}`
}

function elements(list: Part, maxRows: number, offset: number): Statement {
  return {
    sql: `SELECT * FROM ${list} ${OF} ORDER BY ${ORDERED[list]} LIMIT ${maxRows} OFFSET ${offset}`,
    maxRows,
  }
}

/** Removes the keys of a row, which the notice has already. */
function withoutKeys({ company, edital_id, prazos_lidos, run_id, ...rest }: ReadRecord): object {
  return rest
}
