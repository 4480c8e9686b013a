-- Carteira por modalidade
-- Editais em andamento por modalidade de contratação, com sessão futura, passada e sem data.
SELECT modalidade AS "Modalidade", editais_em_andamento AS "Editais", editais_sessao_futura AS "Sessão futura",
  editais_sessao_passada AS "Sessão passada", editais_sem_sessao AS "Sem data"
FROM valor_por_modalidade
WHERE editais_em_andamento > 0
ORDER BY editais_em_andamento DESC, modalidade
