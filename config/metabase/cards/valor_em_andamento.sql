-- Valor em andamento
-- Soma dos valores estimados dos editais em andamento; os sem valor informado (0, sigiloso, simbólico) não entram.
-- A sessão pode já ter passado: o que ainda se pode disputar é o valor em disputa.
SELECT coalesce(sum(valor_total::DECIMAL(20, 4)), 0)::DOUBLE AS "Valor estimado"
FROM funil
WHERE em_andamento
