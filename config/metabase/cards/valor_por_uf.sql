-- Carteira por UF
-- Valor em disputa por UF do órgão: editais em andamento com sessão por vir.
SELECT uf AS "UF", valor_sessao_futura AS "Valor em disputa", editais_sessao_futura AS "Editais"
FROM valor_por_uf
WHERE editais_sessao_futura > 0
ORDER BY valor_sessao_futura DESC, uf
LIMIT 100
