-- Pendências por categoria
-- Requisitos vermelhos e amarelos de editais em andamento com sessão por vir.
SELECT coalesce(categoria_rotulo, 'não informada') AS "Categoria",
  count(*) FILTER (cor = 'vermelho') AS "Vermelhos", count(*) FILTER (cor = 'amarelo') AS "Amarelos"
FROM pendencias_habilitacao
WHERE em_andamento AND situacao_sessao = 'futura' [[AND chave(uf) = chave({{uf}})]]
GROUP BY ALL
ORDER BY count(*) DESC, "Categoria"
LIMIT 12
