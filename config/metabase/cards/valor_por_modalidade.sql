-- Carteira por modalidade
-- Editais em disputa por modalidade de contratação: em andamento, com sessão futura; à parte, com sessão passada e sem data.
SELECT curto(modalidade, 30) AS "Modalidade", editais_em_andamento AS "Editais", editais_sessao_futura AS "Sessão futura",
  editais_sessao_passada AS "Sessão passada", editais_sem_sessao AS "Sem data"
FROM valor_por_modalidade
WHERE editais_sessao_futura > 0
ORDER BY editais_sessao_futura DESC, editais_em_andamento DESC, modalidade
LIMIT 12
