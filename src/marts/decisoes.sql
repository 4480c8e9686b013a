-- A session that has begun needs no decision; what was missed is in sessoes_perdidas. A proposal is ready before the session, so that
-- of a Monday is decided on Friday.
WITH prazos AS (
  SELECT company, edital_id, min(dias_ate_prazo) AS dias_ate_prazo,
    count(*) FILTER (action_type = 'impugnacao') AS impugnar,
    count(*) FILTER (action_type = 'esclarecimento') AS esclarecer
  FROM alertas_juridicos
  WHERE em_andamento AND NOT oportunidade AND severity IN ('critical', 'high') AND dias_ate_prazo BETWEEN 0 AND 4
  GROUP BY ALL
),
vesperas AS (
  SELECT dia AS data_sessao_dia, dia - max(dia) FILTER (dia_util) OVER (ORDER BY dia ROWS BETWEEN 15 PRECEDING AND 1 PRECEDING) AS antes
  FROM calendario
),
casos AS (
  SELECT *, local_time(company, agora())::DATE AS hoje,
    proxima AND NOT confirmada AND coalesce(verdict_recommendation IN ('participar', 'cautela'), false) AS confirmar,
    proxima AND confirmada AND requisitos_vermelhos > 0 AS habilitar
  FROM (
    -- Not from edital_resumo, which sums all items, too.
    SELECT *, situacao_sessao = 'futura' AND dias_ate_sessao < 7 AS proxima,
      participation_confirmed IS NOT DISTINCT FROM true AS confirmada, coalesce(vermelhos, 0) AS requisitos_vermelhos
    FROM editais_ativos
    LEFT JOIN (SELECT company, edital_id, verdict_recommendation, analysis_level FROM analyses) USING (company, edital_id)
    LEFT JOIN (
      SELECT company, edital_id, count(*) AS vermelhos FROM requirements WHERE status = 'red' GROUP BY ALL
    ) USING (company, edital_id)
    WHERE em_andamento
  )
  LEFT JOIN prazos USING (company, edital_id)
  LEFT JOIN vesperas USING (data_sessao_dia)
)
SELECT company, edital_id, hoje + dias_ate_decidir::INTEGER AS decidir_ate, dias_ate_decidir,
  concat_ws('; ',
    CASE WHEN confirmar THEN 'confirmar ou desistir' END,
    CASE WHEN habilitar THEN requisitos_vermelhos || if(requisitos_vermelhos = 1, ' requisito vermelho', ' requisitos vermelhos') END,
    CASE WHEN impugnar > 0 THEN 'impugnar: ' || impugnar || if(impugnar = 1, ' alerta grave', ' alertas graves') END,
    CASE WHEN esclarecer > 0 THEN 'pedir esclarecimento: ' || esclarecer || if(esclarecer = 1, ' alerta grave', ' alertas graves') END
  ) AS decisao,
  coalesce(v.rotulo, verdict_recommendation) AS recomendacao, coalesce(n.rotulo, analysis_level) AS nivel_analise, orgao_cnpj, orgao, uf, numero, modalidade, objeto, fase, valor_estimado_informado,
  data_sessao_local, participation_confirmed, requisitos_vermelhos, pncp_url, contado_no_numero
FROM (
  SELECT *, least(
    CASE WHEN confirmar OR habilitar THEN greatest(dias_ate_sessao - coalesce(antes, 0), 0) END, dias_ate_prazo) AS dias_ate_decidir
  FROM casos WHERE confirmar OR habilitar OR dias_ate_prazo IS NOT NULL
)
LEFT JOIN rotulos v ON v.coluna = 'analyses.verdict_recommendation' AND v.codigo = verdict_recommendation
LEFT JOIN rotulos n ON n.coluna = 'analyses.analysis_level' AND n.codigo = analysis_level
ORDER BY company, decidir_ate, valor_estimado_informado DESC NULLS LAST, edital_id
