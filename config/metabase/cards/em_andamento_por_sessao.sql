-- Em andamento, por sessão
-- A fase não olha a data: separa os editais em andamento com sessão futura (que ainda não começou), passada e sem data.
SELECT sessao AS "Sessão", sum(editais)::BIGINT AS "Editais",
  soma(valor) AS "Valor estimado"
FROM (
  SELECT 'Futura' AS sessao, 1 AS ordem, editais_sessao_futura AS editais, valor_sessao_futura AS valor, em_andamento
  FROM funil
  UNION ALL SELECT 'Passada', 2, editais_sessao_passada, valor_sessao_passada, em_andamento FROM funil
  UNION ALL SELECT 'Sem data', 3, editais_sem_sessao, valor_sem_sessao, em_andamento FROM funil
)
WHERE em_andamento
GROUP BY sessao, ordem
ORDER BY ordem
LIMIT 100
