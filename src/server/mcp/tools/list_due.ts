import { z } from 'zod'
import { records } from '#src/server/read/order.ts'
import { MAX_BYTES, RECORDS, resultOf, tool } from './tool.ts'

const MAX_DAYS = 90
const MAX_ROWS = 60
const MAX_TEXT = 400

const INPUT = z.strictObject({
  days: z.int().min(0).max(MAX_DAYS).default(7).describe('Days from today; 0 is today only.'),
})

const ABOUT = 'edital_id, numero, orgao, uf, objeto, fase, participation_confirmed, recomendacao'

/** Lists of what is due, each from the mart that knows it. `$days` is the last day. */
const LISTS = {
  sessions: `SELECT ${ABOUT}, data_sessao_local, dias_ate_sessao, valor_estimado_informado, requisitos_vermelhos,
      alertas_criticos
    FROM agenda_sessoes WHERE dias_ate_sessao BETWEEN 0 AND $days::INTEGER
    ORDER BY data_sessao_local, edital_id`,
  contest_deadlines: `SELECT ${ABOUT}, ultimo_dia_impugnacao, dias_ate_impugnacao, regra_impugnacao,
      certeza_impugnacao, data_sessao_local
    FROM edital_resumo WHERE em_andamento AND dias_ate_impugnacao BETWEEN 0 AND $days::INTEGER
    ORDER BY dias_ate_impugnacao, edital_id`,
  question_deadlines: `SELECT ${ABOUT}, ultimo_dia_esclarecimento, dias_ate_esclarecimento, regra_esclarecimento,
      certeza_esclarecimento, data_sessao_local
    FROM edital_resumo WHERE em_andamento AND dias_ate_esclarecimento BETWEEN 0 AND $days::INTEGER
    ORDER BY dias_ate_esclarecimento, edital_id`,
  alerts_with_deadline: `SELECT edital_id, numero, orgao, uf, prazo, dias_ate_prazo, regra_prazo, certeza_prazo, acao, tipo, severidade,
      titulo
    FROM alertas_juridicos WHERE em_andamento AND dias_ate_prazo BETWEEN 0 AND $days::INTEGER
    ORDER BY dias_ate_prazo, severidade_ordem, edital_id, ordinal`,
} as const

export const LIST_DUE = tool({
  name: 'list_due',
  scope: 'read',
  title: 'List what is due',
  description:
    'Sessions, last days to contest a notice and to ask questions about it, and legal alerts with a deadline in the next days, of notices in progress. Holidays of cities are unknown, and a day that is "a confirmar" is the earliest of several possible ones: check the notice.',
  input: INPUT,
  output: {
    days: { type: 'integer' },
    ...Object.fromEntries(Object.keys(LISTS).map(list => [list, RECORDS])),
  },
  async find({ days }, read) {
    const answer = await read({
      statements: Object.values(LISTS).map(sql => ({
        sql,
        values: { days: String(days) },
        maxRows: MAX_ROWS,
      })),
      isForeign: false,
      maxBytes: MAX_BYTES,
      maxText: MAX_TEXT,
    })
    const names = Object.keys(LISTS)
    const found = names.map((name, index) => [name, resultOf(answer, index)] as const)
    return {
      answer,
      data: { days, ...Object.fromEntries(found.map(([name, rows]) => [name, records(rows)])) },
      leftOut: found.flatMap(([name, { isCut }]) =>
        isCut ? [`More ${name} than shown: ask for fewer days, or use ask_mart.`] : [],
      ),
    }
  },
})
