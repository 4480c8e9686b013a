-- Risco de pagamento por órgão
-- Órgãos com editais em andamento e o risco de pagamento da análise mais recente que o informa.
SELECT orgao AS "Órgão", uf AS "UF", risco_pagamento AS "Risco de pagamento",
  editais_em_andamento AS "Editais", valor_em_andamento AS "Valor em andamento",
  proxima_sessao_dia AS "Próxima sessão"
FROM orgaos
WHERE editais_em_andamento > 0 AND risco_pagamento IS NOT NULL [[AND uf = {{uf}}]]
ORDER BY valor_em_andamento DESC NULLS LAST, orgao, orgao_cnpj
LIMIT 100
