-- Valor em disputa
-- Soma dos valores estimados dos editais em andamento com sessão por vir, de qualquer parecer e também de registro de preços.
-- Um edital republicado (mesmo órgão, objeto e valor) conta uma vez.
SELECT soma(valor_sessao_futura) AS "Valor estimado"
FROM funil
WHERE em_andamento
