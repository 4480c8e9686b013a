-- A known risk comes before an unknown one. Of two known ones the buyer's report comes first: it is about the
-- buyer, not about one notice, and rests on public data.
WITH riscos AS (
  SELECT codigo, rotulo FROM rotulos WHERE coluna = 'analyses.pricing_risco_pagamento'
),
-- A code is its own key: most words need not be read further.
lidos AS (
  SELECT company, edital_id,
    CASE WHEN regexp_full_match(orgao_report_payment_risk, '[a-z_]+') THEN orgao_report_payment_risk
      ELSE chave(orgao_report_payment_risk) END AS orgao,
    CASE WHEN regexp_full_match(pricing_risco_pagamento, '[a-z_]+') THEN pricing_risco_pagamento
      ELSE chave(pricing_risco_pagamento) END AS precificacao
  FROM analyses
),
avaliados AS (
  SELECT *,
    nullif(orgao, 'desconhecido') IS NOT NULL AS orgao_conhece,
    nullif(precificacao, 'desconhecido') IS NOT NULL AS precificacao_conhece
  FROM lidos
),
escolhidos AS (
  SELECT *, orgao IS NOT NULL AND (orgao_conhece OR NOT precificacao_conhece) AS do_orgao FROM avaliados
)
SELECT company, edital_id,
  CASE WHEN do_orgao THEN orgao ELSE precificacao END AS risco_pagamento,
  CASE WHEN do_orgao THEN 'relatório do órgão' ELSE 'precificação' END AS risco_pagamento_fonte,
  orgao_conhece OR precificacao_conhece AS risco_conhecido,
  orgao AS risco_pagamento_orgao,
  precificacao AS risco_pagamento_precificacao,
  coalesce(CASE WHEN do_orgao THEN r_orgao.rotulo ELSE r_precificacao.rotulo END, risco_pagamento)
    AS risco_pagamento_rotulo,
  coalesce(r_orgao.rotulo, orgao) AS risco_pagamento_orgao_rotulo,
  coalesce(r_precificacao.rotulo, precificacao) AS risco_pagamento_precificacao_rotulo
FROM escolhidos
LEFT JOIN riscos r_orgao ON r_orgao.codigo = orgao
LEFT JOIN riscos r_precificacao ON r_precificacao.codigo = precificacao
WHERE coalesce(orgao, precificacao) IS NOT NULL
