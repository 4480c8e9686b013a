SELECT company,
  risco_pagamento,
  coalesce(risco_pagamento_rotulo, 'não avaliado') AS risco_pagamento_rotulo,
  coalesce(ordem, CASE WHEN risco_pagamento IS NULL THEN 7 ELSE 6 END) AS ordem,
  count(*) AS editais_em_andamento,
  count(*) FILTER (participation_confirmed) AS confirmados,
  count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
  soma(valor_somado) AS valor_em_andamento,
  soma(CASE WHEN participation_confirmed THEN valor_somado END) AS valor_confirmado,
  count(*) FILTER (situacao_sessao = 'futura') AS editais_sessao_futura,
  count(*) FILTER (situacao_sessao = 'passada') AS editais_sessao_passada,
  count(*) FILTER (situacao_sessao = 'sem data') AS editais_sem_sessao,
  soma(CASE WHEN situacao_sessao = 'futura' THEN valor_somado END) AS valor_sessao_futura,
  soma(CASE WHEN situacao_sessao = 'passada' THEN valor_somado END) AS valor_sessao_passada,
  soma(CASE WHEN situacao_sessao = 'sem data' THEN valor_somado END) AS valor_sem_sessao
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
