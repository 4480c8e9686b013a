-- A CNPJ identifies a buyer. Name and state are from its latest notice, the risk is from the latest analysis that
-- names a known one.
WITH editais_do_orgao AS (
  SELECT e.*, coalesce(e.orgao_cnpj, e.orgao, 'não informado') AS chave,
    risco_pagamento, risco_pagamento_fonte, risco_pagamento_orgao, risco_pagamento_precificacao, risco_conhecido,
    risco_pagamento_rotulo, risco_pagamento_orgao_rotulo, risco_pagamento_precificacao_rotulo
  FROM editais_ativos e
  LEFT JOIN riscos_pagamento USING (company, edital_id)
),
somados AS (
  SELECT company, chave,
    any_value(orgao_cnpj) AS orgao_cnpj,
    arg_max(orgao, (updated_at, edital_id)) FILTER (orgao IS NOT NULL) AS orgao,
    arg_max(uf, (updated_at, edital_id)) FILTER (uf IS NOT NULL) AS uf,
    count(*) AS editais,
    count(*) FILTER (em_andamento) AS editais_em_andamento,
    count(*) FILTER (status = 'discarded') AS descartados,
    descartados / editais AS parcela_descartada,
    soma(valor_somado) AS valor_total,
    soma(CASE WHEN em_andamento THEN valor_somado END) AS valor_em_andamento,
    -- Known before unknown; both sources as in the notice that it comes from.
    arg_max(
      {'risco': risco_pagamento, 'fonte': risco_pagamento_fonte, 'orgao': risco_pagamento_orgao,
        'precificacao': risco_pagamento_precificacao, 'rotulo': risco_pagamento_rotulo,
        'orgao_rotulo': risco_pagamento_orgao_rotulo, 'precificacao_rotulo': risco_pagamento_precificacao_rotulo},
      (risco_conhecido, updated_at, edital_id)
    ) FILTER (risco_pagamento IS NOT NULL) AS r,
    min(data_sessao_dia) FILTER (em_andamento AND situacao_sessao = 'futura') AS proxima_sessao_dia,
    count(*) FILTER (em_andamento AND situacao_sessao = 'futura') AS editais_sessao_futura,
    count(*) FILTER (em_andamento AND situacao_sessao = 'passada') AS editais_sessao_passada,
    count(*) FILTER (em_andamento AND situacao_sessao = 'sem data') AS editais_sem_sessao,
    soma(CASE WHEN em_andamento AND situacao_sessao = 'futura' THEN valor_somado END) AS valor_sessao_futura,
    soma(CASE WHEN em_andamento AND situacao_sessao = 'passada' THEN valor_somado END) AS valor_sessao_passada,
    soma(CASE WHEN em_andamento AND situacao_sessao = 'sem data' THEN valor_somado END) AS valor_sem_sessao
  FROM editais_do_orgao
  GROUP BY company, chave
)
SELECT company, orgao_cnpj, orgao, uf, editais, editais_em_andamento, descartados, parcela_descartada,
  valor_total, valor_em_andamento,
  r.risco AS risco_pagamento,
  proxima_sessao_dia,
  r.fonte AS risco_pagamento_fonte,
  r.orgao AS risco_pagamento_orgao,
  r.precificacao AS risco_pagamento_precificacao,
  editais_sessao_futura, editais_sessao_passada, editais_sem_sessao,
  valor_sessao_futura, valor_sessao_passada, valor_sem_sessao,
  r.rotulo AS risco_pagamento_rotulo,
  r.orgao_rotulo AS risco_pagamento_orgao_rotulo,
  r.precificacao_rotulo AS risco_pagamento_precificacao_rotulo
FROM somados
ORDER BY company, valor_em_andamento DESC, editais DESC, chave
