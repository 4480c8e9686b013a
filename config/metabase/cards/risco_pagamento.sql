-- Risco de pagamento por órgão
-- Órgãos com editais em andamento e o risco de pagamento da análise mais recente que traz um conhecido: o do
-- relatório do órgão ou, na falta, o da precificação; ao lado, as duas fontes.
SELECT curto(orgao, 50) AS "Órgão", uf AS "UF", risco_pagamento_rotulo AS "Risco de pagamento",
  risco_pagamento_orgao_rotulo AS "Relatório do órgão", risco_pagamento_precificacao_rotulo AS "Precificação",
  editais_em_andamento AS "Editais", editais_sessao_futura AS "Com sessão futura",
  valor_em_andamento AS "Valor em andamento", valor_sessao_futura AS "Valor em disputa",
  proxima_sessao_dia AS "Próxima sessão"
FROM orgaos
WHERE editais_em_andamento > 0 AND risco_pagamento IS NOT NULL [[AND chave(uf) = chave({{uf}})]]
ORDER BY valor_sessao_futura DESC, valor_em_andamento DESC, orgao, orgao_cnpj
LIMIT 100
