-- Valor em andamento
-- Soma dos valores estimados dos editais em andamento; os sem valor informado (0, sigiloso, simbólico) não entram, e um republicado conta uma vez.
-- A sessão pode já ter passado: o que ainda se pode disputar é o valor em disputa.
SELECT soma(valor_total) AS "Valor estimado"
FROM funil
WHERE em_andamento
