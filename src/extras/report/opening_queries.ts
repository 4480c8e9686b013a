import type { Database } from '#src/core/warehouse/database.ts'
import { type Bounded, type ChangeCount, type Decision, LIMITS, type Week } from './figures.ts'
import { readBounded, sumOf, TEXT } from './query_parts.ts'

/** The figures with which the report opens: what to decide, what changed, and the trend. */

/** Notices in progress that need a decision, the most urgent ones first. A session that has begun needs none. */
export async function readDecisions(db: Database): Promise<Bounded<Decision>> {
  return await readBounded<Decision>(db, {
    all: `WITH due AS (
         SELECT edital_id, min(prazo) AS impugnar_ate, min(dias_ate_prazo) AS dias_impugnar, count(*) AS alertas_graves
         FROM alertas_juridicos
         WHERE em_andamento AND NOT oportunidade AND severity IN ('critical', 'high')
           AND dias_ate_prazo BETWEEN 0 AND ${LIMITS.contestDays - 1}
         GROUP BY edital_id),
       near AS (
         SELECT *, situacao_sessao = 'futura' AND dias_ate_sessao < ${LIMITS.soonDays} AS em_breve,
           coalesce(participation_confirmed, false) AS confirmada
         FROM edital_resumo WHERE em_andamento),
       judged AS (
         SELECT *,
           coalesce(em_breve AND NOT confirmada AND verdict_recommendation IN ('participar', 'cautela'), false) AS confirmar,
           coalesce(em_breve AND confirmada AND requisitos_vermelhos > 0, false) AS habilitar
         FROM near LEFT JOIN due USING (edital_id))
       SELECT edital_id, least(CASE WHEN confirmar OR habilitar THEN data_sessao_dia END, impugnar_ate) AS ate,
         least(CASE WHEN confirmar OR habilitar THEN dias_ate_sessao END, dias_impugnar) AS dias,
         confirmar, habilitar, coalesce(alertas_graves, 0) AS alertas_graves,
         requisitos_vermelhos AS vermelhos, left(verdict_recommendation, ${TEXT}) AS verdict_recommendation,
         data_sessao_local, left(orgao, ${TEXT}) AS orgao, left(uf, ${TEXT}) AS uf, left(numero, ${TEXT}) AS numero,
         left(objeto, ${TEXT}) AS objeto, valor_estimado_informado AS valor, pncp_url
       FROM judged WHERE confirmar OR habilitar OR impugnar_ate IS NOT NULL`,
    orderBy: 'ate, valor DESC NULLS LAST, edital_id',
    limit: LIMITS.decisions,
  })
}

/** Each way in which notices change: the name of its row, and a query for the notices and the time of each change. */
const CHANGES: readonly (readonly [name: string, sql: string])[] = [
  ['Novos editais', 'SELECT edital_id, created_at AS em FROM editais_ativos'],
  ['Saíram da API', 'SELECT edital_id, deleted_at AS em FROM editais'],
  ['Mudaram de fase', 'SELECT edital_id, observado_em AS em FROM transicoes_de_fase'],
  ['Sessão remarcada', "SELECT edital_id, observado_em AS em FROM mudancas WHERE campo = 'data_sessao'"],
  ['Valor alterado', "SELECT edital_id, observado_em AS em FROM mudancas WHERE campo = 'valor_estimado'"],
  ['Parecer alterado', 'SELECT edital_id, observado_em AS em FROM mudancas_parecer'],
]

export async function readChanges(db: Database): Promise<ChangeCount[]> {
  const within = (span: string) =>
    `count(DISTINCT edital_id) FILTER (em > agora() - INTERVAL ${span} AND em <= agora())`
  const parts = CHANGES.map(
    ([, sql], index) =>
      `SELECT ${index} AS n, ${within('1 DAY')} AS um_dia, ${within('7 DAYS')} AS sete_dias FROM (${sql})`,
  )
  const rows = await db.rows<{ n: number; um_dia: number; sete_dias: number }>(
    `FROM (${parts.join(' UNION ALL ')}) ORDER BY n`,
  )
  return rows.map(({ n, um_dia, sete_dias }) => ({ mudanca: CHANGES[n]?.[0] ?? '', um_dia, sete_dias }))
}

/** Returns the current week and the previous ones, each from Monday on. */
export async function readWeeks(db: Database): Promise<Week[]> {
  const weekOf = (day: string) => `date_trunc('week', ${day})::DATE`
  return await db.rows<Week>(
    `WITH this AS (SELECT ${weekOf('local_time(company, agora())')} AS semana FROM snapshot_info),
     weeks AS (
       SELECT unnest(generate_series(semana - ${7 * (LIMITS.weeks - 1)}, semana, INTERVAL 7 DAY))::DATE AS semana FROM this),
     arrived AS (
       SELECT ${weekOf('criado_local')} AS semana, count(*) AS novos, ${sumOf('valor_estimado_informado')} AS valor_novos
       FROM editais_ativos GROUP BY 1),
     moved AS (
       SELECT ${weekOf('observado_dia')} AS semana,
         count(DISTINCT edital_id) FILTER (para_status = 'ready') AS prontos,
         count(DISTINCT edital_id) FILTER (para_status = 'discarded') AS descartados
       FROM transicoes_de_fase GROUP BY 1)
     SELECT semana, coalesce(novos, 0) AS novos, coalesce(valor_novos, 0) AS valor_novos,
       coalesce(prontos, 0) AS prontos, coalesce(descartados, 0) AS descartados
     FROM weeks LEFT JOIN arrived USING (semana) LEFT JOIN moved USING (semana) ORDER BY semana`,
  )
}
