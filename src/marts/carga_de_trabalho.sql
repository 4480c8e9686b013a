-- Eight weeks, today included. Days without work have a row, too: a heat map needs them.
WITH dias AS (
  SELECT company, hoje + n::INTEGER AS dia, n AS dias_ate
  FROM (SELECT company, local_time(company, agora())::DATE AS hoje FROM snapshot_info)
  CROSS JOIN (SELECT unnest(range(0, 56)) AS n)
),
-- Not from edital_resumo, which sums all items, too.
sessoes AS (
  SELECT company, edital_id, data_sessao_dia, participation_confirmed, valor_somado FROM editais_ativos
  WHERE em_andamento AND situacao_sessao = 'futura' AND dias_ate_sessao <= 55
),
requisitos_por_edital AS (
  SELECT company, edital_id,
    count(*) FILTER (status = 'red') AS requisitos_vermelhos,
    count(*) FILTER (status = 'yellow') AS requisitos_amarelos
  FROM requirements SEMI JOIN sessoes USING (company, edital_id)
  GROUP BY ALL
),
sessoes_por_dia AS (
  SELECT company, data_sessao_dia AS dia, count(*) AS sessoes,
    count(*) FILTER (participation_confirmed) AS confirmadas,
    sum(requisitos_vermelhos)::BIGINT AS requisitos_vermelhos,
    sum(requisitos_amarelos)::BIGINT AS requisitos_amarelos,
    soma(valor_somado) AS valor
  FROM sessoes LEFT JOIN requisitos_por_edital USING (company, edital_id)
  GROUP BY ALL
),
prazos_por_dia AS (
  SELECT company, prazo AS dia, count(*) AS alertas_com_prazo, count(DISTINCT edital_id) AS editais_com_prazo
  FROM alertas_juridicos
  WHERE em_andamento AND dias_ate_prazo BETWEEN 0 AND 55
  GROUP BY ALL
)
SELECT company, dia,
  date_trunc('week', dia)::DATE AS semana,
  ['segunda', 'terça', 'quarta', 'quinta', 'sexta', 'sábado', 'domingo'][isodow(dia)] AS dia_da_semana,
  isodow(dia)::INTEGER AS dia_da_semana_ordem,
  dias_ate, dia_util, feriado,
  coalesce(sessoes, 0) AS sessoes,
  coalesce(confirmadas, 0) AS sessoes_confirmadas,
  coalesce(requisitos_vermelhos, 0) AS requisitos_vermelhos,
  coalesce(requisitos_amarelos, 0) AS requisitos_amarelos,
  coalesce(valor, 0) AS valor_total,
  coalesce(alertas_com_prazo, 0) AS alertas_com_prazo,
  coalesce(editais_com_prazo, 0) AS editais_com_prazo
FROM dias
LEFT JOIN sessoes_por_dia USING (company, dia)
LEFT JOIN prazos_por_dia USING (company, dia)
LEFT JOIN (SELECT dia, dia_util, feriado FROM calendario) USING (dia)
ORDER BY company, dia
