-- Carteira por modalidade
-- Editais em disputa por modalidade de contratação: em andamento, com sessão por vir.
SELECT curto(modalidade, 30) AS "Modalidade", editais_sessao_futura AS "Editais"
FROM valor_por_modalidade
WHERE editais_sessao_futura > 0
ORDER BY editais_sessao_futura DESC, modalidade
LIMIT 12
