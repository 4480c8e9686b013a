-- Discarded notices are in descartes_recomendados. Not from edital_resumo, which sums all items, too.
WITH perdidas AS (
  SELECT * FROM editais_ativos
  JOIN (
    SELECT company, edital_id, verdict_recommendation, verdict_reason FROM analyses
    WHERE verdict_recommendation IN ('participar', 'cautela')
  ) USING (company, edital_id)
  WHERE situacao_sessao = 'passada' AND status <> 'discarded' AND participation_confirmed IS DISTINCT FROM true
),
requisitos_por_edital AS (
  SELECT company, edital_id, count(*) AS requisitos_vermelhos
  FROM requirements
  WHERE status = 'red'
  GROUP BY ALL
)
SELECT company, edital_id, orgao_cnpj, orgao, uf, numero, modalidade, objeto, status, fase,
  data_sessao_dia,
  date_trunc('week', data_sessao_dia)::DATE AS semana,
  -dias_ate_sessao AS dias_desde_sessao,
  verdict_recommendation, recomendacao, verdict_reason,
  valor_estimado_informado, coalesce(requisitos_vermelhos, 0) AS requisitos_vermelhos, pncp_url, valor_somado, contado_no_numero
FROM perdidas
LEFT JOIN requisitos_por_edital USING (company, edital_id)
JOIN (
  SELECT codigo AS verdict_recommendation, rotulo AS recomendacao FROM rotulos
  WHERE coluna = 'analyses.verdict_recommendation'
) USING (verdict_recommendation)
ORDER BY company, data_sessao_dia DESC, edital_id
