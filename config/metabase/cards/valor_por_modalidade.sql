-- Carteira por modalidade
-- Editais em andamento por modalidade de contratação.
SELECT modalidade AS "Modalidade", editais_em_andamento AS "Editais"
FROM valor_por_modalidade
WHERE editais_em_andamento > 0
ORDER BY editais_em_andamento DESC, modalidade
