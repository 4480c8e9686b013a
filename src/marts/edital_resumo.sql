-- Each child table is aggregated before it is joined: joining them directly would multiply their rows.
WITH tetos AS (SELECT company, edital_id, teto_dos_itens(valor_estimado) AS teto FROM editais),
itens_por_edital AS (
  SELECT company, edital_id, teto, count(*) AS itens, fsum(valor_total) FILTER (NOT suspeito) AS itens_valor_total,
    count(*) FILTER (ai_selected) AS itens_selecionados,
    fsum(valor_total) FILTER (ai_selected AND NOT suspeito) AS itens_selecionados_valor,
    count(*) FILTER (valor_total IS NULL OR valor_total = 0 OR suspeito) AS itens_sem_valor
  FROM (SELECT i.*, teto, item_suspeito(valor_total, teto) AS suspeito FROM items i JOIN tetos USING (company, edital_id))
  GROUP BY ALL
),
requisitos_por_edital AS (
  SELECT company, edital_id, count(*) AS requisitos,
    count(*) FILTER (status = 'red') AS requisitos_vermelhos,
    count(*) FILTER (status = 'yellow') AS requisitos_amarelos,
    count(*) FILTER (status = 'green') AS requisitos_verdes,
    count(*) FILTER (status IS NULL OR status NOT IN ('red', 'yellow', 'green')) AS requisitos_sem_avaliacao
  FROM requirements GROUP BY ALL
),
alertas_por_edital AS (
  SELECT company, edital_id, count(*) AS alertas,
    count(*) FILTER (oportunidade) AS oportunidades,
    count(*) FILTER (severity = 'critical' AND NOT oportunidade) AS alertas_criticos,
    count(*) FILTER (severity = 'high' AND NOT oportunidade) AS alertas_altos,
    count(*) FILTER (severity = 'medium' AND NOT oportunidade) AS alertas_medios,
    count(*) FILTER (severity = 'low' AND NOT oportunidade) AS alertas_baixos
  -- An opportunity is not a risk, whatever its severity.
  FROM (SELECT *, type IS NOT DISTINCT FROM 'opportunity' AS oportunidade FROM alerts)
  GROUP BY ALL
)
SELECT e.*,
  ultimo_dia_impugnacao, dias_ate_prazo(ultimo_dia_impugnacao, situacao_sessao = 'passada', hoje) AS dias_ate_impugnacao,
  analysis_level, verdict_recommendation, verdict_reason,
  coalesce(itens, 0) AS itens,
  -- Not least, which leaves out NULL.
  if(i.itens_valor_total > teto, teto, i.itens_valor_total) AS itens_valor_total,
  coalesce(itens_selecionados, 0) AS itens_selecionados,
  if(i.itens_selecionados_valor > teto, teto, i.itens_selecionados_valor) AS itens_selecionados_valor,
  coalesce(requisitos, 0) AS requisitos,
  coalesce(requisitos_vermelhos, 0) AS requisitos_vermelhos,
  coalesce(requisitos_amarelos, 0) AS requisitos_amarelos,
  coalesce(requisitos_verdes, 0) AS requisitos_verdes,
  coalesce(requisitos_sem_avaliacao, 0) AS requisitos_sem_avaliacao,
  coalesce(alertas, 0) AS alertas,
  coalesce(oportunidades, 0) AS oportunidades,
  coalesce(alertas_criticos, 0) AS alertas_criticos,
  coalesce(alertas_altos, 0) AS alertas_altos,
  coalesce(alertas_medios, 0) AS alertas_medios,
  coalesce(alertas_baixos, 0) AS alertas_baixos,
  pricing_investimento_total AS investimento_total,
  pricing_garantia_proposta AS garantia_proposta,
  pricing_garantia_contratual AS garantia_contratual,
  pricing_margem_min AS margem_min,
  pricing_margem_max AS margem_max,
  risco_pagamento,
  overview_prazo_impugnacao AS prazo_impugnacao,
  risco_pagamento_fonte, risco_pagamento_orgao, risco_pagamento_precificacao,
  regra_impugnacao,
  coalesce(itens_sem_valor, 0) AS itens_sem_valor,
  coalesce(recomendacao, verdict_recommendation) AS recomendacao,
  coalesce(nivel_analise, analysis_level) AS nivel_analise,
  risco_pagamento_rotulo, risco_pagamento_orgao_rotulo, risco_pagamento_precificacao_rotulo,
  certeza_impugnacao,
  ultimo_dia_esclarecimento, dias_ate_prazo(ultimo_dia_esclarecimento, situacao_sessao = 'passada', hoje) AS dias_ate_esclarecimento,
  regra_esclarecimento, certeza_esclarecimento,
  coalesce(overview_is_srp OR pricing_is_srp, overview_is_srp, pricing_is_srp) AS registro_de_precos,
  CASE WHEN teto IS NOT NULL AND contado_no_edital IS NULL THEN if(i.itens_selecionados_valor > teto, teto, i.itens_selecionados_valor) END
    AS itens_selecionados_valor_somado
FROM editais_ativos e
LEFT JOIN analyses USING (company, edital_id)
LEFT JOIN riscos_pagamento USING (company, edital_id)
LEFT JOIN itens_por_edital i USING (company, edital_id)
LEFT JOIN requisitos_por_edital USING (company, edital_id)
LEFT JOIN alertas_por_edital USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, local_time(company, agora())::DATE AS hoje, ultimo_dia_impugnacao, regra_impugnacao, certeza_impugnacao,
    ultimo_dia_esclarecimento, regra_esclarecimento, certeza_esclarecimento
  FROM prazos_calculados
) USING (company, edital_id)
LEFT JOIN (
  SELECT codigo AS verdict_recommendation, rotulo AS recomendacao FROM rotulos
  WHERE coluna = 'analyses.verdict_recommendation'
) USING (verdict_recommendation)
LEFT JOIN (
  SELECT codigo AS analysis_level, rotulo AS nivel_analise FROM rotulos WHERE coluna = 'analyses.analysis_level'
) USING (analysis_level)
