-- Pendências por categoria
-- Requisitos vermelhos e amarelos de editais em andamento com sessão por vir; à parte, os de editais com sessão passada e sem
-- data.
SELECT coalesce(categoria_rotulo, 'não informada') AS "Categoria",
  count(*) FILTER (situacao_sessao = 'futura' AND cor = 'vermelho') AS "Vermelhos",
  count(*) FILTER (situacao_sessao = 'futura' AND cor = 'amarelo') AS "Amarelos",
  count(*) FILTER (situacao_sessao = 'passada') AS "Sessão passada",
  count(*) FILTER (situacao_sessao = 'sem data') AS "Sem data"
FROM pendencias_habilitacao
WHERE em_andamento [[AND chave(uf) = chave({{uf}})]]
GROUP BY ALL
HAVING count(*) FILTER (situacao_sessao = 'futura') > 0
ORDER BY count(*) FILTER (situacao_sessao = 'futura') DESC, count(*) DESC, "Categoria"
LIMIT 12
