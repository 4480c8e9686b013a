-- Exposição ao risco de pagamento
-- Editais em andamento e seu valor, pelo risco de pagamento que vale.
SELECT risco_pagamento_rotulo AS "Risco de pagamento", editais_em_andamento AS "Editais", confirmados AS "Confirmados",
  valor_em_andamento AS "Valor em andamento", valor_sessao_futura AS "Valor em disputa",
  valor_confirmado AS "Valor confirmado"
FROM exposicao_pagamento
ORDER BY ordem, risco_pagamento
LIMIT 100
