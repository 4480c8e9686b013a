-- A CNPJ identifies a buyer. Name and state are from its latest notice, the risk is from its latest analysis.
WITH editais_do_orgao AS (
  SELECT e.*, coalesce(e.orgao_cnpj, e.orgao, 'não informado') AS chave,
    coalesce(nullif(orgao_report_payment_risk, ''), nullif(pricing_risco_pagamento, '')) AS risco
  FROM editais_ativos e
  LEFT JOIN analyses USING (company, edital_id)
)
SELECT company,
  any_value(orgao_cnpj) AS orgao_cnpj,
  arg_max(orgao, (updated_at, edital_id)) FILTER (orgao IS NOT NULL) AS orgao,
  arg_max(uf, (updated_at, edital_id)) FILTER (uf IS NOT NULL) AS uf,
  count(*) AS editais,
  count(*) FILTER (em_andamento) AS editais_em_andamento,
  count(*) FILTER (status = 'discarded') AS descartados,
  descartados / editais AS parcela_descartada,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)), 0)::DOUBLE AS valor_total,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (em_andamento), 0)::DOUBLE AS valor_em_andamento,
  -- An unknown risk does not replace an earlier known one.
  coalesce(
    arg_max(risco, (updated_at, edital_id)) FILTER (risco <> 'desconhecido'),
    max(risco)
  ) AS risco_pagamento,
  min(data_sessao_dia) FILTER (em_andamento AND dias_ate_sessao >= 0) AS proxima_sessao_dia
FROM editais_do_orgao
GROUP BY company, chave
ORDER BY company, valor_em_andamento DESC, editais DESC, chave
