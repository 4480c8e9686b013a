-- Exposição ao risco de pagamento
-- Editais em andamento e seu valor, pelo risco de pagamento que vale. Em disputa são os de sessão por vir; os confirmados são também
-- os de sessão passada, em que já pode haver contrato.
SELECT risco_pagamento_rotulo AS "Risco de pagamento", editais_em_andamento AS "Editais", confirmados AS "Confirmados",
  valor_em_andamento AS "Valor em andamento", valor_sessao_futura AS "Valor em disputa",
  valor_confirmado AS "Valor confirmado"
FROM exposicao_pagamento
ORDER BY ordem, risco_pagamento
LIMIT 100
