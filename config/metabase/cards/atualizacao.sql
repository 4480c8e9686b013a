-- Atualização dos dados
-- Quando este retrato foi publicado e como terminou a última sincronização.
SELECT publicado_local AS "Publicado em", idade_minutos AS "Idade (min)",
  ultima_execucao_resultado AS "Última execução", ultima_boa_local AS "Última execução boa",
  editais_ativos AS "Editais ativos", pendentes AS "Análises pendentes", em_quarentena AS "Em quarentena"
FROM frescor
ORDER BY company
LIMIT 100
