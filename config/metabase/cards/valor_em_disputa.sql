-- Valor em disputa
-- Soma dos valores estimados dos editais em andamento com sessão por vir.
SELECT coalesce(sum(valor_sessao_futura::DECIMAL(20, 4)), 0)::DOUBLE AS "Valor estimado"
FROM funil
WHERE em_andamento
