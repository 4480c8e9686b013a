import type { Database } from '#src/store/warehouse/database.ts'
import { type Blocker, type Exposure, LIMITS, type Stakes } from './figures.ts'
import { AHEAD, type At, OVER, sumOfValues, TEXT, TODAY } from './query_parts.ts'

/** Queries for the stakes: what was given up against the verdict, what sessions tie up, what blocks, and who may not pay. */

const RECOMMENDED = `verdict_recommendation IN ('participar', 'cautela')`

export async function readStakes(db: Database, at: At): Promise<Stakes> {
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
export async function readBlockers(db: Database, at: At): Promise<Blocker[]> {
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

export async function readExposures(db: Database, at: At): Promise<Exposure[]> {
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
