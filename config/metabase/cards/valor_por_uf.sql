-- Carteira por UF
-- Valor em disputa por UF do órgão: editais em andamento com sessão futura; à parte, com sessão passada e sem data.
SELECT uf AS "UF", valor_em_andamento AS "Valor em andamento", valor_sessao_futura AS "Sessão futura",
  valor_sessao_passada AS "Sessão passada", valor_sem_sessao AS "Sem data", editais_em_andamento AS "Editais"
FROM valor_por_uf
WHERE editais_sessao_futura > 0
ORDER BY valor_sessao_futura DESC, valor_em_andamento DESC, uf
LIMIT 100
