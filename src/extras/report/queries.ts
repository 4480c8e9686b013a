import { localTime } from '#schema/times.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import {
  type AlertCount,
  type Blocker,
  type Bounded,
  type Buyer,
  type Demand,
  type DriftCount,
  type Exposure,
  type Figures,
  type Freshness,
  type KeyFigures,
  LIMITS,
  type Phase,
  type Portion,
  type Quarantined,
  type ReportedSession,
  type RiskAlert,
  type SessionDay,
  type Stakes,
} from './figures.ts'
import { readChanges, readDecisions, readWeeks } from './opening_queries.ts'
import { AHEAD, type At, OVER, readBounded, sumOfValues, TEXT, TODAY } from './query_parts.ts'

/** Queries for the stakes: what was given up against the verdict, what sessions tie up, what blocks, and who may not pay. */

const RECOMMENDED = `verdict_recommendation IN ('participar', 'cautela')`

async function readStakes(db: Database, at: At): Promise<Stakes> {
  const plausible = (column: string) =>
    `coalesce(sum(CASE WHEN NOT valor_suspeito(${column}) THEN ${column}::DECIMAL(20, 4) END), 0)`
  return await db.row<Stakes>(
    `WITH discarded AS (SELECT * FROM edital_resumo WHERE status = 'discarded' AND ${RECOMMENDED}),
       missed AS (SELECT * FROM edital_resumo
         WHERE status <> 'discarded' AND ${RECOMMENDED} AND participation_confirmed IS DISTINCT FROM true
           AND ${OVER}
           AND data_sessao_dia >= date_trunc('week', ${TODAY})::DATE - ${7 * (LIMITS.weeks - 1)}),
       ahead AS (SELECT * FROM edital_resumo WHERE em_andamento AND ${AHEAD})
     SELECT (SELECT count(*) FROM discarded) AS descartados,
       (SELECT ${sumOfValues(undefined)} FROM discarded) AS valor_descartados,
       (SELECT count(*) FROM missed) AS perdidos,
       (SELECT ${sumOfValues(undefined)} FROM missed) AS valor_perdidos,
       (SELECT (${plausible('garantia_proposta')} + ${plausible('garantia_contratual')})::DOUBLE FROM ahead) AS garantias,
       (SELECT ${plausible('investimento_total')}::DOUBLE FROM ahead) AS investimento`,
    at,
  )
}

/** Returns the red requirements that block the most value. A separate query: the mart counts from today, not from `now`. */
async function readBlockers(db: Database, at: At): Promise<Blocker[]> {
  return await db.rows<Blocker>(
    `WITH red AS (
       SELECT edital_id, categoria, coalesce(chave(titulo), 'sem titulo') AS chave,
         min(coalesce(texto_limpo(titulo), 'sem título')) AS titulo
       FROM pendencias_habilitacao
       SEMI JOIN (SELECT edital_id FROM editais_ativos WHERE coalesce(${AHEAD}, true)) USING (edital_id)
       WHERE em_andamento AND status = 'red'
       GROUP BY edital_id, categoria, chave),
     alone AS (SELECT edital_id, count(*) = 1 AS so_este FROM red GROUP BY edital_id),
     spelled AS (
       SELECT categoria, chave, titulo, count(*) AS editais,
         sum(valor_estimado_informado::DECIMAL(20, 4)) AS valor, count(*) FILTER (so_este) AS so_este
       FROM red JOIN alone USING (edital_id) JOIN editais_ativos USING (edital_id)
       GROUP BY categoria, chave, titulo)
     SELECT left(arg_min(s.titulo, (-s.editais, s.titulo)), ${TEXT}) AS titulo, left(categoria, ${TEXT}) AS categoria,
       sum(s.editais)::BIGINT AS editais, coalesce(sum(s.valor), 0)::DOUBLE AS valor, sum(s.so_este)::BIGINT AS so_este
     FROM spelled s
     GROUP BY s.categoria, s.chave ORDER BY valor DESC, editais DESC, s.categoria, titulo LIMIT ${LIMITS.demands}`,
    at,
  )
}

async function readExposures(db: Database, at: At): Promise<Exposure[]> {
  return await db.rows<Exposure>(
    `SELECT left(risco_pagamento, ${TEXT}) AS risco, count(*) AS editais,
       count(*) FILTER (participation_confirmed) AS confirmados, ${sumOfValues(undefined)} AS valor,
       ${sumOfValues(AHEAD)} AS valor_futuras
     FROM edital_resumo
     LEFT JOIN (
       SELECT codigo AS risco_pagamento, ordem FROM rotulos WHERE coluna = 'analyses.pricing_risco_pagamento'
     ) USING (risco_pagamento)
     WHERE em_andamento GROUP BY risco_pagamento, ordem ORDER BY ordem NULLS LAST, risco_pagamento NULLS LAST
     LIMIT ${LIMITS.problems}`,
    at,
  )
}

/**
 * Reads the report's figures from a snapshot's marts. Distances in days are counted from `now`, not from the
 * clock: the same snapshot and instant give the same report.
 */
export async function readFigures(db: Database, now: Date): Promise<Figures> {
  const freshness = await readFreshness(db)
  const localNow = localTime(now, freshness.timezone)
  const today = new Date(localNow.toISOString().slice(0, 10))
  const at = { local: localNow.toISOString().slice(0, 19) }
  return {
    now,
    today,
    freshness,
    key: await readKeyFigures(db, at),
    decisions: await readDecisions(db, at),
    changes: await readChanges(db, now),
    weeks: await readWeeks(db, at),
    funnel: await readFunnel(db, now, at),
    states: await readPortions(db, at, 'uf'),
    modalities: await readPortions(db, at, 'modalidade'),
    sessionDays: await readSessionDays(db, at),
    sessions: await readSessions(db, at),
    demands: await readDemands(db),
    blockers: await readBlockers(db, at),
    stakes: await readStakes(db, at),
    exposures: await readExposures(db, at),
    alertCounts: await readAlertCounts(db),
    alerts: await readAlerts(db, at),
    buyers: await readBuyers(db, at),
    quarantine: await readQuarantine(db),
    drift: await readDrift(db),
  }
}

/** The columns of `BySession`, from `editais_ativos`. */
const BY_SESSION = [
  ['futuras', AHEAD],
  ['passadas', OVER],
  ['sem_data', 'data_sessao_dia IS NULL'],
].map(([name, those]) => ({
  count: `count(*) FILTER (${those}) AS ${name}`,
  value: `${sumOfValues(those)} AS valor_${name}`,
}))
const COUNTS_BY_SESSION = BY_SESSION.map(({ count }) => count).join(', ')
const VALUES_BY_SESSION = BY_SESSION.map(({ value }) => value).join(', ')

async function readFreshness(db: Database): Promise<Freshness> {
  return await db.row<Freshness>(
    `SELECT company, snapshot, publicado_em, i.source_timezone AS timezone, ultima_execucao_em,
       ultima_execucao_status, left(ultima_execucao_erro, ${TEXT}) AS ultima_execucao_erro, ultima_boa_em,
       editais_ativos, analises_atuais, pendentes, excluidos, em_quarentena, desvios
     FROM frescor CROSS JOIN (SELECT source_timezone FROM snapshot_info) i`,
  )
}

async function readKeyFigures(db: Database, at: At): Promise<KeyFigures> {
  return await db.row<KeyFigures>(
    `WITH notices AS (SELECT * FROM editais_ativos WHERE em_andamento),
       red AS (SELECT edital_id FROM pendencias_habilitacao WHERE em_andamento AND status = 'red'),
       due AS (SELECT edital_id FROM alertas_juridicos
         WHERE em_andamento AND prazo - ${TODAY} BETWEEN 0 AND ${LIMITS.soonDays - 1})
     SELECT count(*) AS em_andamento, count(*) FILTER (participation_confirmed) AS confirmados,
       ${sumOfValues(undefined)} AS valor, ${COUNTS_BY_SESSION}, ${VALUES_BY_SESSION},
       count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
       count(*) FILTER (valor_suspeito) AS suspeitos,
       count(*) FILTER (${AHEAD} AND data_sessao_dia - ${TODAY} < ${LIMITS.soonDays}) AS sessoes_7_dias,
       (SELECT count(*) FROM red) AS requisitos_vermelhos,
       (SELECT count(DISTINCT edital_id) FROM red) AS editais_com_vermelho,
       (SELECT count(*) FROM alertas_juridicos WHERE em_andamento AND oportunidade) AS oportunidades,
       (SELECT count(*) FROM due) AS alertas_7_dias,
       (SELECT count(DISTINCT edital_id) FROM due) AS editais_com_alerta_7_dias
     FROM notices`,
    at,
  )
}

async function readFunnel(db: Database, now: Date, { local }: At): Promise<Phase[]> {
  return await db.rows<Phase>(
    `WITH ages AS (
       SELECT status, median(epoch($now::TIMESTAMPTZ - created_at) / 86400) FILTER (criado_local IS NOT NULL) AS idade_dias
       FROM editais_ativos GROUP BY status),
     split AS (SELECT status, ${COUNTS_BY_SESSION} FROM editais_ativos GROUP BY status),
     stays AS (
       SELECT status, median(epoch($now::TIMESTAMPTZ - entrou_em) / 86400) FILTER (NOT censurada) AS na_fase_dias,
         count(*) FILTER (NOT censurada) AS medidos, count(*) FILTER (censurada) AS censurados
       FROM passagens_por_fase SEMI JOIN editais_ativos USING (edital_id) WHERE em_curso GROUP BY status)
     SELECT fase, em_andamento, editais, coalesce(futuras, 0) AS futuras, coalesce(passadas, 0) AS passadas,
       coalesce(sem_data, 0) AS sem_data, sem_valor, valor_total, valor_mediano,
       idade_dias, na_fase_dias, coalesce(medidos, 0) AS medidos, coalesce(censurados, 0) AS censurados
     FROM funil LEFT JOIN split USING (status) LEFT JOIN ages USING (status) LEFT JOIN stays USING (status)
     ORDER BY fase_ordem, fase`,
    { now: now.toISOString(), local },
  )
}

/** Reads the portions of notices in progress. @param part the column to group them by. */
async function readPortions(db: Database, at: At, part: 'uf' | 'modalidade'): Promise<Portion[]> {
  return await db.rows<Portion>(
    `SELECT left(coalesce(${part}, 'não informada'), ${TEXT}) AS nome, count(*) AS editais,
       ${sumOfValues(undefined)} AS valor, ${COUNTS_BY_SESSION}, ${VALUES_BY_SESSION}
     FROM editais_ativos WHERE em_andamento
     GROUP BY nome ORDER BY valor DESC, editais DESC, nome`,
    at,
  )
}

/** Reads one row per day from today on, including days without a session. */
async function readSessionDays(db: Database, at: At): Promise<SessionDay[]> {
  return await db.rows<SessionDay>(
    `SELECT dia::DATE AS dia, count(edital_id) AS sessoes
     FROM generate_series(${TODAY}, ${TODAY} + ${LIMITS.sessionDays - 1}, INTERVAL 1 DAY) d (dia)
       LEFT JOIN (SELECT * FROM editais_ativos WHERE em_andamento AND ${AHEAD}) ON data_sessao_dia = dia
     GROUP BY ALL ORDER BY dia`,
    at,
  )
}

async function readSessions(db: Database, at: At): Promise<Bounded<ReportedSession>> {
  return await readBounded<ReportedSession>(db, {
    all: `SELECT edital_id, data_sessao_local, data_sessao_dia - ${TODAY} AS dias,
         left(orgao, ${TEXT}) AS orgao, left(uf, ${TEXT}) AS uf, left(modalidade, ${TEXT}) AS modalidade,
         left(numero, ${TEXT}) AS numero, left(objeto, ${TEXT}) AS objeto, left(fase, ${TEXT}) AS fase,
         participation_confirmed, valor_estimado_informado AS valor,
         left(verdict_recommendation, ${TEXT}) AS verdict_recommendation,
         requisitos_vermelhos AS vermelhos, requisitos_amarelos AS amarelos,
         alertas_criticos AS criticos, alertas_altos AS altos, ultimo_dia_impugnacao,
         ultimo_dia_impugnacao - ${TODAY} AS dias_impugnacao, regra_impugnacao,
         certeza_impugnacao, pncp_url
       FROM edital_resumo
       WHERE em_andamento AND ${AHEAD} AND data_sessao_dia - ${TODAY} < ${LIMITS.sessionDays}`,
    orderBy: 'data_sessao_local, orgao, edital_id',
    limit: LIMITS.sessions,
    values: at,
  })
}

async function readDemands(db: Database): Promise<Demand[]> {
  return await db.rows<Demand>(
    `SELECT left(category, ${TEXT}) AS categoria, count(*) FILTER (r.status = 'red') AS vermelhos,
       count(*) FILTER (r.status = 'yellow') AS amarelos, count(*) FILTER (r.status = 'green') AS verdes,
       count(*) FILTER (r.status IS NULL OR r.status NOT IN ('red', 'yellow', 'green')) AS sem_avaliacao
     FROM requirements r SEMI JOIN (SELECT edital_id FROM editais_ativos WHERE em_andamento) USING (edital_id)
     GROUP BY ALL ORDER BY vermelhos DESC, amarelos DESC, verdes DESC, categoria`,
  )
}

async function readAlertCounts(db: Database): Promise<AlertCount[]> {
  return await db.rows<AlertCount>(
    `SELECT left(severidade, ${TEXT}) AS severidade, count(*) FILTER (type = 'risk') AS riscos,
       count(*) FILTER (type IS DISTINCT FROM 'risk') AS outros
     FROM alertas_juridicos WHERE em_andamento AND NOT oportunidade
     GROUP BY severidade_ordem, 1 ORDER BY severidade_ordem, severidade`,
  )
}

async function readAlerts(db: Database, at: At): Promise<Bounded<RiskAlert>> {
  return await readBounded<RiskAlert>(db, {
    all: `SELECT edital_id, ordinal, severidade_ordem, prazo, prazo - ${TODAY} AS dias, certeza_prazo, oportunidade, severity,
         left(severidade, ${TEXT}) AS severidade,
         left(acao, ${TEXT}) AS acao, left(titulo, ${TEXT}) AS titulo, left(descricao, ${TEXT}) AS descricao,
         left(orgao, ${TEXT}) AS orgao, left(uf, ${TEXT}) AS uf, left(numero, ${TEXT}) AS numero,
         left(fase, ${TEXT}) AS fase, data_sessao_dia, pncp_url
       FROM alertas_juridicos LEFT JOIN (SELECT edital_id, pncp_url FROM editais_ativos) USING (edital_id)
       WHERE em_andamento AND prazo >= ${TODAY}`,
    orderBy: 'prazo, oportunidade, severidade_ordem, edital_id, ordinal',
    limit: LIMITS.alerts,
    values: at,
  })
}

async function readBuyers(db: Database, at: At): Promise<Bounded<Buyer>> {
  return await readBounded<Buyer>(db, {
    all: `WITH next AS (
         SELECT coalesce(orgao_cnpj, orgao) AS buyer, min(data_sessao_dia) AS proxima_sessao,
           ${sumOfValues(undefined)} AS valor_futuras
         FROM editais_ativos
         WHERE em_andamento AND ${AHEAD} GROUP BY buyer)
       SELECT orgao_cnpj, left(orgao, ${TEXT}) AS orgao, left(uf, ${TEXT}) AS uf, editais,
         editais_em_andamento AS em_andamento, parcela_descartada, valor_em_andamento AS valor, coalesce(valor_futuras, 0) AS valor_futuras,
         left(risco_pagamento, ${TEXT}) AS risco_pagamento,
         left(risco_pagamento_orgao, ${TEXT}) AS risco_orgao,
         left(risco_pagamento_precificacao, ${TEXT}) AS risco_precificacao, proxima_sessao
       FROM orgaos LEFT JOIN next ON buyer IS NOT DISTINCT FROM coalesce(orgao_cnpj, orgao) WHERE editais_em_andamento > 0`,
    orderBy: 'valor DESC, em_andamento DESC, orgao, orgao_cnpj',
    limit: LIMITS.buyers,
    values: at,
  })
}

async function readQuarantine(db: Database): Promise<Bounded<Quarantined>> {
  return await readBounded<Quarantined>(db, {
    all: `SELECT kind, left(reason, ${TEXT}) AS reason, count(*) AS registros,
         max(observed_at) AS ultimo_em
       FROM quarantine WHERE resolved_at IS NULL GROUP BY ALL`,
    orderBy: 'registros DESC, kind, reason',
    limit: LIMITS.problems,
  })
}

async function readDrift(db: Database): Promise<Bounded<DriftCount>> {
  return await readBounded<DriftCount>(db, {
    all: `SELECT left(path, ${TEXT}) AS path, kind, count AS vezes, last_seen_at AS ultimo_em FROM schema_drift`,
    orderBy: 'ultimo_em DESC, path, kind',
    limit: LIMITS.problems,
  })
}
