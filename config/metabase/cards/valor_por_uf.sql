-- Carteira por UF
-- Valor estimado dos editais em andamento por UF do órgão.
SELECT uf AS "UF", valor_em_andamento AS "Valor em andamento", editais_em_andamento AS "Editais"
FROM valor_por_uf
WHERE editais_em_andamento > 0
ORDER BY valor_em_andamento DESC NULLS LAST, uf
