import { shiftToLocalTime } from '#schema/times.ts'
import type { Database, Row } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { countDaysFrom } from '#src/marts/open.ts'
import { DECIDING } from '#src/present/deciding.ts'
import { readCard, sqlFor } from '#src/present/questions.ts'
import { findChangesEnd, LISTINGS } from '#src/present/readings.ts'
import { findNoticeAddress } from '#src/present/text/format.ts'
import {
  type Against,
  type AlertCount,
  type Blocker,
  type Bounded,
  type Buyer,
  type ByVerdict,
  type ChangeCount,
  type Decision,
  type Demand,
  type DriftCount,
  type Exposure,
  type Figures,
  type Freshness,
  type KeyFigures,
  LIMITS,
  type Named,
  type NoticeChange,
  type Phase,
  type Portion,
  type Quarantined,
  type ReportedSession,
  type RiskAlert,
  type SessionDay,
  type Stakes,
  type Week,
  type WeekAgo,
} from './figures.ts'

/** Maximum characters read of a text; the page cuts texts even shorter. */
const TEXT = 600
const NAMED = `${['orgao', 'uf', 'numero'].map(name => `left(${name}, ${TEXT}) AS ${name}`).join(', ')}, com_republicacao(NULL, contado_no_numero) AS republicado`

/** A query for all rows, and which of them are read. */
type List = {
  readonly all: string
  readonly orderBy: string
  readonly limit: number
}

/**
 * Returns the first rows of a list, and the number of all.
 * Counted by a query of its own: DuckDB 1.5.5 fails now and then on a window over all rows, if a filter leaves few
 * (duckdb/duckdb#25713).
 */
async function readBounded<T extends Row>(db: Database, list: List): Promise<Bounded<T>> {
  const rows = await db.rows<T & { total: number }>(
    `WITH found AS MATERIALIZED (${list.all})
     SELECT *, (SELECT count(*) FROM found) AS total FROM found ORDER BY ${list.orderBy} LIMIT ${list.limit}`,
  )
  return { rows, total: rows[0]?.total ?? 0 }
}

/** Returns a list of notices, each with the address of its page: ours if we know where our pages are and have it there, or else PNCP's. */
async function readNotices<T extends Named>(
  db: Database,
  pagesUrl: string | null,
  list: List,
): Promise<Bounded<T>> {
  type Read = Omit<T, 'address'> & {
    readonly edital_id: string
    readonly pncp_url: string | null
    readonly esta_na_api: boolean
  }
  const all = `SELECT l.*, e.edital_id IS NOT NULL AS esta_na_api
    FROM (${list.all}) l LEFT JOIN (SELECT edital_id FROM editais WHERE deleted_at IS NULL) e USING (edital_id)`
  const { rows, total } = await readBounded<Read>(db, { ...list, all })
  const place = (row: Read) => ({ ...row, address: findNoticeAddress(row, pagesUrl) }) as unknown as T
  return { rows: rows.map(place), total }
}

/** When a report is read, and where our pages of notices are; null if PAGES_URL is not set. */
export type At = { readonly now: Date; readonly pagesUrl: string | null }

/**
 * Reads the report's figures from a snapshot. A figure is defined once: by a mart, or by the card that shows it. Distances in
 * days are counted from `now`, not from the clock, so the same snapshot and moment give the same report.
 */
export async function readFigures(db: Database, { now, pagesUrl }: At): Promise<Figures> {
  await countDaysFrom(db, now)
  const freshness = await readFreshness(db)
  const changesUntil = findChangesEnd(freshness.listada_em, now)
  return {
    now,
    today: new Date(shiftToLocalTime(now, freshness.timezone).toISOString().slice(0, 10)),
    freshness,
    key: await readKeyFigures(db),
    decisions: {
      today: await readDecisions(db, DECIDING.today.when, pagesUrl),
      soon: await readDecisions(db, DECIDING.soon.when, pagesUrl),
    },
    changes: await readChanges(db, changesUntil ?? now),
    news: await readNews(db, changesUntil ?? now, pagesUrl),
    changesUntil,
    weeks: await readWeeks(db),
    funnel: await readFunnel(db),
    states: await readPortions(db, 'uf'),
    modalities: await readPortions(db, 'modalidade'),
    sessionDays: await readSessionDays(db),
    sessions: await readSessions(db, pagesUrl),
    demands: await readDemands(db),
    blockers: await readBlockers(db),
    verdicts: await db.rows<ByVerdict>(sqlFor(await readCard('disputa_por_parecer'), new Set())),
    against: await readAgainst(db),
    stakes: await readStakes(db),
    exposures: await readExposures(db),
    alertCounts: await readAlertCounts(db),
    alerts: await readAlerts(db, pagesUrl),
    buyers: await readBuyers(db),
    quarantine: await readQuarantine(db),
    drift: await readDrift(db),
  }
}

async function readFreshness(db: Database): Promise<Freshness> {
  return await db.row<Freshness>(
    `SELECT company, snapshot, publicado_em, i.source_timezone AS timezone, ultima_execucao_em,
       ultima_execucao_status, left(ultima_execucao_erro, ${TEXT}) AS ultima_execucao_erro, ultima_boa_em,
       editais_ativos, analises_atuais, pendentes, excluidos, em_quarentena, desvios,
       (SELECT max(finished_at) ${LISTINGS}) AS listada_em
     FROM frescor CROSS JOIN (SELECT source_timezone FROM snapshot_info) i`,
  )
}

/** Reads the number of a card that shows only one. */
async function readNumber(db: Database, card: string): Promise<number> {
  const row = await db.row<Record<string, number>>(sqlFor(await readCard(card), new Set()))
  return Object.values(row)[0] as number
}

/** Reads the figures of the tiles that can be read as of an earlier day, too. */
export async function readTiles(db: Database): Promise<WeekAgo> {
  return {
    ...(await db.row<Pick<WeekAgo, 'em_andamento'>>(
      `SELECT coalesce(sum(editais), 0)::BIGINT AS em_andamento FROM funil WHERE em_andamento`,
    )),
    valor_futuras: await readNumber(db, 'valor_em_disputa'),
    sessoes_7_dias: await readNumber(db, 'sessoes_7_dias'),
    requisitos_vermelhos: await readNumber(db, 'requisitos_vermelhos'),
    ...(await db.row<Pick<WeekAgo, 'alertas_7_dias'>>(
      `SELECT count(*) AS alertas_7_dias FROM (${DUE_ALERTS})`,
    )),
  }
}

/** Alerts whose last day is within a week. */
const DUE_ALERTS = `SELECT edital_id FROM alertas_juridicos
  WHERE em_andamento AND dias_ate_prazo BETWEEN 0 AND ${LIMITS.soonDays - 1}`

async function readKeyFigures(db: Database): Promise<KeyFigures> {
  const others = await db.row<Omit<KeyFigures, keyof WeekAgo>>(
    `WITH phases AS (
         SELECT sum(editais_sessao_futura)::BIGINT AS futuras,
           sum(editais_sessao_passada)::BIGINT AS passadas, sum(editais_sem_sessao)::BIGINT AS sem_data,
           soma(valor_sessao_passada) AS valor_passadas,
           soma(valor_sem_sessao) AS valor_sem_data
         FROM funil WHERE em_andamento),
       notices AS (
         SELECT count(*) FILTER (participation_confirmed) AS confirmados,
           count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor, count(*) FILTER (valor_suspeito) AS suspeitos
         FROM editais_ativos WHERE em_andamento),
       red AS (
         SELECT count(DISTINCT edital_id) FILTER (situacao_sessao = 'futura') AS editais_com_vermelho,
           count(*) FILTER (situacao_sessao = 'passada') AS vermelhos_passados,
           count(*) FILTER (situacao_sessao = 'sem data') AS vermelhos_sem_data
         FROM pendencias_habilitacao WHERE em_andamento AND status = 'red'),
       alerts AS (
         SELECT count(*) FILTER (situacao_sessao = 'futura' AND oportunidade) AS oportunidades,
           count(*) FILTER (situacao_sessao = 'passada') AS alertas_passados,
           count(*) FILTER (situacao_sessao = 'sem data') AS alertas_sem_data
         FROM alertas_juridicos WHERE em_andamento),
       due AS (SELECT count(DISTINCT edital_id) AS editais_com_alerta_7_dias FROM (${DUE_ALERTS}))
     FROM phases CROSS JOIN notices CROSS JOIN red CROSS JOIN alerts CROSS JOIN due`,
  )
  return { ...others, ...(await readTiles(db)) }
}

/** Reads the notices that need a decision, the most urgent ones first. @param when their last day, as a condition. */
async function readDecisions(
  db: Database,
  when: string,
  pagesUrl: string | null,
): Promise<Bounded<Decision>> {
  return await readNotices<Decision>(db, pagesUrl, {
    all: `SELECT edital_id, decidir_ate AS ate, dias_ate_decidir AS dias, decisao, left(recomendacao, ${TEXT}) AS recomendacao,
         left(nivel_analise, ${TEXT}) AS nivel, data_sessao_local, ${NAMED}, left(objeto, ${TEXT}) AS objeto, valor_estimado_informado AS valor, pncp_url
       FROM decisoes WHERE ${when}`,
    orderBy: 'ate, valor DESC NULLS LAST, edital_id',
    limit: LIMITS.decisions,
  })
}

/** The kinds of change in `novidades`, in the order in which they are shown, and how several are named. */
const CHANGES: readonly (readonly [kind: string, name: string])[] = [
  ['Novo edital', 'Novos editais'],
  ['Saiu da lista', 'Saíram da lista'],
  ['Mudou de fase', 'Mudaram de fase'],
  ...['Sessão antecipada', 'Sessão remarcada', 'Objeto alterado', 'Valor alterado', 'Parecer alterado'].map(
    name => [name, name] as const,
  ),
]

async function readChanges(db: Database, until: Date): Promise<ChangeCount[]> {
  const end = `TIMESTAMPTZ ${literal(until.toISOString())}`
  const within = (span: string) =>
    `count(DISTINCT edital_id) FILTER (observado_em > ${end} - INTERVAL ${span})`
  const rows = await db.rows<ChangeCount>(
    `SELECT mudanca, ${within('1 DAY')} AS um_dia, count(DISTINCT edital_id) AS sete_dias
     FROM novidades WHERE observado_em > ${end} - INTERVAL 7 DAY AND observado_em <= ${end} GROUP BY ALL`,
  )
  return CHANGES.map(([kind, mudanca]) => {
    const { um_dia = 0, sete_dias = 0 } = rows.find(row => row.mudanca === kind) ?? {}
    return { mudanca, um_dia, sete_dias }
  })
}

async function readNews(db: Database, until: Date, pagesUrl: string | null): Promise<Bounded<NoticeChange>> {
  const end = `TIMESTAMPTZ ${literal(until.toISOString())}`
  return await readNotices<NoticeChange>(db, pagesUrl, {
    all: `SELECT edital_id, observado_em, observado_dia, mudanca, mudanca_ordem, left(de, ${TEXT}) AS de, left(para, ${TEXT}) AS para,
         impugnar_ate, ${NAMED}, left(objeto, ${TEXT}) AS objeto, pncp_url
       FROM novidades
       WHERE mudanca <> 'Novo edital' AND observado_em > ${end} - INTERVAL 7 DAY AND observado_em <= ${end}`,
    orderBy: 'observado_dia DESC, mudanca_ordem, observado_em DESC, edital_id',
    limit: LIMITS.news,
  })
}

/** Returns the current week and the previous ones, each from Monday on. */
async function readWeeks(db: Database): Promise<Week[]> {
  const findWeek = (day: string) => `date_trunc('week', ${day})::DATE`
  return await db.rows<Week>(
    `WITH this AS (SELECT ${findWeek('local_time(company, agora())')} AS semana FROM snapshot_info),
     weeks AS (
       SELECT unnest(generate_series(semana - ${7 * (LIMITS.weeks - 1)}, semana, INTERVAL 7 DAY))::DATE AS semana FROM this),
     arrived AS (
       SELECT ${findWeek('criado_local')} AS semana, count(*) AS novos, soma(valor_somado) AS valor_novos
       FROM editais_ativos GROUP BY 1),
     moved AS (
       SELECT ${findWeek('observado_dia')} AS semana,
         count(DISTINCT edital_id) FILTER (para_status = 'ready') AS prontos,
         count(DISTINCT edital_id) FILTER (para_status = 'discarded') AS descartados
       FROM transicoes_de_fase GROUP BY 1)
     SELECT semana, coalesce(novos, 0) AS novos, coalesce(valor_novos, 0) AS valor_novos,
       coalesce(prontos, 0) AS prontos, coalesce(descartados, 0) AS descartados
     FROM weeks LEFT JOIN arrived USING (semana) LEFT JOIN moved USING (semana) ORDER BY semana`,
  )
}

const COUNTS_BY_SESSION =
  'editais_sessao_futura AS futuras, editais_sessao_passada AS passadas, editais_sem_sessao AS sem_data'
async function readFunnel(db: Database): Promise<Phase[]> {
  return await db.rows<Phase>(
    `SELECT fase, em_andamento, editais, ${COUNTS_BY_SESSION}, valor_sessao_futura AS valor_futuras, sem_valor, valor_total, valor_mediano,
       idade_mediana_dias AS idade_dias, dias_na_fase_mediana AS na_fase_dias,
       editais - editais_censurados AS medidos, editais_censurados AS censurados
     FROM funil ORDER BY fase_ordem, fase`,
  )
}

/** Reads the portions of notices in progress. @param part what they are grouped by. */
async function readPortions(db: Database, part: 'uf' | 'modalidade'): Promise<Portion[]> {
  return await db.rows<Portion>(
    `SELECT left(${part}, ${TEXT}) AS nome, editais_em_andamento AS editais, valor_em_andamento AS valor,
       ${COUNTS_BY_SESSION}, valor_sessao_futura AS valor_futuras
     FROM valor_por_${part} WHERE editais_em_andamento > 0
     ORDER BY valor_futuras DESC, futuras DESC, valor DESC, editais_em_andamento DESC, nome`,
  )
}

/** Reads one row per day from today on, including days without a session. */
async function readSessionDays(db: Database): Promise<SessionDay[]> {
  return await db.rows<SessionDay>(
    `SELECT dia, sessoes FROM carga_de_trabalho WHERE dias_ate < ${LIMITS.sessionDays} ORDER BY dia`,
  )
}

async function readSessions(db: Database, pagesUrl: string | null): Promise<Bounded<ReportedSession>> {
  return await readNotices<ReportedSession>(db, pagesUrl, {
    all: `SELECT edital_id, data_sessao_local, dias_ate_sessao AS dias,
         ${NAMED}, left(modalidade, ${TEXT}) AS modalidade, left(objeto, ${TEXT}) AS objeto, left(fase, ${TEXT}) AS fase,
         participation_confirmed, valor_estimado_informado AS valor,
         left(verdict_recommendation, ${TEXT}) AS verdict_recommendation,
         requisitos_vermelhos AS vermelhos, requisitos_amarelos AS amarelos,
         alertas_criticos AS criticos, alertas_altos AS altos, ultimo_dia_impugnacao,
         dias_ate_impugnacao AS dias_impugnacao, regra_impugnacao, certeza_impugnacao, pncp_url
       FROM agenda_sessoes WHERE dias_ate_sessao < ${LIMITS.sessionDays}`,
    orderBy: 'data_sessao_local, orgao, edital_id',
    limit: LIMITS.sessions,
  })
}

async function readDemands(db: Database): Promise<Demand[]> {
  return await db.rows<Demand>(
    `SELECT left(category, ${TEXT}) AS categoria, count(*) FILTER (r.status = 'red') AS vermelhos,
       count(*) FILTER (r.status = 'yellow') AS amarelos, count(*) FILTER (r.status = 'green') AS verdes,
       count(*) FILTER (r.status IS NULL OR r.status NOT IN ('red', 'yellow', 'green')) AS sem_avaliacao
     FROM requirements r SEMI JOIN (SELECT edital_id FROM editais_ativos WHERE em_andamento AND situacao_sessao = 'futura') USING (edital_id)
     GROUP BY ALL ORDER BY vermelhos DESC, amarelos DESC, verdes DESC, categoria`,
  )
}

async function readAlertCounts(db: Database): Promise<AlertCount[]> {
  return await db.rows<AlertCount>(
    `SELECT left(severidade, ${TEXT}) AS severidade, count(*) FILTER (type = 'risk') AS riscos,
       count(*) FILTER (type IS DISTINCT FROM 'risk') AS outros
     FROM alertas_juridicos WHERE em_andamento AND situacao_sessao = 'futura' AND NOT oportunidade
     GROUP BY severidade_ordem, 1 ORDER BY severidade_ordem, severidade`,
  )
}

/** Returns the red requirements that block the most value. */
async function readBlockers(db: Database): Promise<Blocker[]> {
  return await db.rows<Blocker>(
    `SELECT left(requisito, ${TEXT}) AS titulo, left(categoria, ${TEXT}) AS categoria, editais, valor_total AS valor,
       editais_so_este AS so_este
     FROM requisitos_bloqueantes WHERE editais > 0 ORDER BY valor DESC, editais DESC, categoria, titulo LIMIT ${LIMITS.demands}`,
  )
}

/** Reads what was decided against the verdict: what was missed is as in its mart. */
async function readAgainst(db: Database): Promise<Against[]> {
  const since = (today: string) => `date_trunc('week', ${today})::DATE - ${7 * LIMITS.weeks}`
  return await db.rows<Against>(
    `WITH cases AS (
       SELECT 'perdido' AS caso, valor_somado AS valor FROM sessoes_perdidas
       WHERE verdict_recommendation = 'participar' AND semana > ${since('data_sessao_dia + dias_desde_sessao::INTEGER')}
       UNION ALL
       SELECT CASE WHEN status = 'discarded' AND verdict_recommendation = 'participar' THEN 'descartado'
           WHEN status <> 'discarded' AND verdict_recommendation = 'nao_recomendado' AND participation_confirmed
           THEN 'confirmado' END || if(situacao_sessao = 'futura', ' por vir', ''), valor_somado
       FROM editais_ativos JOIN analyses USING (company, edital_id)
       WHERE situacao_sessao = 'futura' OR (situacao_sessao = 'passada'
         AND date_trunc('week', data_sessao_dia)::DATE > ${since('data_sessao_dia - dias_ate_sessao::INTEGER')}))
     SELECT caso, count(*) AS editais, soma(valor) AS valor FROM cases WHERE caso IS NOT NULL GROUP BY caso`,
  )
}

async function readStakes(db: Database): Promise<Stakes> {
  return await db.row<Stakes>(
    `SELECT soma(na_sessao_confirmado + na_sessao_a_confirmar) AS na_sessao,
       soma(na_assinatura_confirmado + na_assinatura_a_confirmar) AS na_assinatura FROM capital_por_semana`,
  )
}

async function readExposures(db: Database): Promise<Exposure[]> {
  return await db.rows<Exposure>(
    `SELECT left(risco_pagamento, ${TEXT}) AS risco, editais_em_andamento AS editais, confirmados,
       valor_em_andamento AS valor, valor_sessao_futura AS valor_futuras
     FROM exposicao_pagamento ORDER BY ordem, risco_pagamento LIMIT ${LIMITS.problems}`,
  )
}

async function readAlerts(db: Database, pagesUrl: string | null): Promise<Bounded<RiskAlert>> {
  return await readNotices<RiskAlert>(db, pagesUrl, {
    all: `SELECT edital_id, ordinal, severidade_ordem, prazo, dias_ate_prazo AS dias, certeza_prazo, oportunidade, severity,
         left(severidade, ${TEXT}) AS severidade,
         left(acao, ${TEXT}) AS acao, left(titulo, ${TEXT}) AS titulo, left(descricao, ${TEXT}) AS descricao,
         ${NAMED}, left(fase, ${TEXT}) AS fase, data_sessao_dia, pncp_url
       FROM alertas_juridicos
       WHERE em_andamento AND dias_ate_prazo >= 0`,
    orderBy: 'prazo, oportunidade, severidade_ordem, edital_id, ordinal',
    limit: LIMITS.alerts,
  })
}

async function readBuyers(db: Database): Promise<Bounded<Buyer>> {
  return await readBounded<Buyer>(db, {
    all: `SELECT orgao_cnpj, left(orgao, ${TEXT}) AS orgao, left(uf, ${TEXT}) AS uf, editais,
         editais_em_andamento AS em_andamento, parcela_descartada, valor_em_andamento AS valor,
         valor_sessao_futura AS valor_futuras, left(risco_pagamento, ${TEXT}) AS risco_pagamento,
         left(risco_pagamento_orgao, ${TEXT}) AS risco_orgao,
         left(risco_pagamento_precificacao, ${TEXT}) AS risco_precificacao, proxima_sessao_dia AS proxima_sessao
       FROM orgaos WHERE editais_em_andamento > 0`,
    orderBy: 'valor_futuras DESC, valor DESC, em_andamento DESC, orgao, orgao_cnpj',
    limit: LIMITS.buyers,
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
