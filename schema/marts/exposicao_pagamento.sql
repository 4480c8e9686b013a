SELECT company,
  risco_pagamento,
  coalesce(risco_pagamento_rotulo, 'não avaliado') AS risco_pagamento_rotulo,
  coalesce(ordem, CASE WHEN risco_pagamento IS NULL THEN 7 ELSE 6 END) AS ordem,
  count(*) AS editais_em_andamento,
  count(*) FILTER (participation_confirmed) AS confirmados,
  count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)), 0)::DOUBLE AS valor_em_andamento,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (participation_confirmed), 0)::DOUBLE
    AS valor_confirmado,
  count(*) FILTER (situacao_sessao = 'futura') AS editais_sessao_futura,
  count(*) FILTER (situacao_sessao = 'passada') AS editais_sessao_passada,
  count(*) FILTER (situacao_sessao = 'sem data') AS editais_sem_sessao,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (situacao_sessao = 'futura'), 0)::DOUBLE
    AS valor_sessao_futura,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (situacao_sessao = 'passada'), 0)::DOUBLE
    AS valor_sessao_passada,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (situacao_sessao = 'sem data'), 0)::DOUBLE
    AS valor_sem_sessao
FROM editais_ativos
LEFT JOIN (
  SELECT company, edital_id, risco_pagamento, risco_pagamento_rotulo FROM riscos_pagamento
) USING (company, edital_id)
LEFT JOIN (
  SELECT codigo AS risco_pagamento, ordem FROM rotulos WHERE coluna = 'analyses.pricing_risco_pagamento'
) USING (risco_pagamento)
WHERE em_andamento
GROUP BY ALL
ORDER BY company, ordem, risco_pagamento
