-- Titles with the same key are one requirement, shown as most notices write it. A notice that repeats one counts once, in its worst
-- colour; without a colour if it is closed, or its session is past. Numbers stand for titles, because grouping texts takes longer.
WITH titulos AS MATERIALIZED (
  SELECT title, coalesce(texto_limpo(title), 'sem título') AS limpo,
    dense_rank() OVER (ORDER BY coalesce(chave(title), 'sem titulo')) AS grupo,
    dense_rank() OVER (ORDER BY limpo) AS grafia
  FROM (SELECT DISTINCT title FROM requirements)
),
por_edital AS (
  SELECT r.company, r.edital_id, r.category AS categoria, t.grupo, min(t.grafia) AS grafia,
    coalesce(max(CASE r.status WHEN 'red' THEN 3 WHEN 'yellow' THEN 2 WHEN 'green' THEN 1 END) FILTER (e.aberto), 0) AS cor
  FROM requirements r
  JOIN titulos t ON t.title IS NOT DISTINCT FROM r.title
  JOIN (
    SELECT company, edital_id, em_andamento AND situacao_sessao <> 'passada' AS aberto FROM editais_ativos
  ) e ON e.company = r.company AND e.edital_id = r.edital_id
  GROUP BY ALL
),
com_requisitos AS (
  SELECT company, count(DISTINCT edital_id) AS editais_com_requisitos FROM por_edital GROUP BY company
),
por_grafia AS (
  SELECT company, categoria, grupo, grafia, count(*) AS editais,
    count(*) FILTER (cor = 3) AS vermelhos, count(*) FILTER (cor = 2) AS amarelos, count(*) FILTER (cor = 1) AS verdes
  FROM por_edital
  GROUP BY ALL
),
somados AS (
  SELECT company, categoria, arg_min(grafia, (-g.editais, grafia)) AS grafia, sum(g.editais)::BIGINT AS editais,
    sum(vermelhos)::BIGINT AS vermelhos, sum(amarelos)::BIGINT AS amarelos, sum(verdes)::BIGINT AS verdes
  FROM por_grafia g
  GROUP BY company, categoria, grupo
  HAVING sum(g.editais) >= 3
)
SELECT company, categoria, coalesce(rotulo, categoria) AS categoria_rotulo, limpo AS requisito, editais,
  editais / editais_com_requisitos AS parcela, vermelhos, amarelos, verdes
FROM somados
JOIN com_requisitos USING (company)
JOIN (SELECT DISTINCT grafia, limpo FROM titulos) USING (grafia)
LEFT JOIN (SELECT codigo AS categoria, rotulo FROM rotulos WHERE coluna = 'requirements.category') USING (categoria)
ORDER BY company, editais DESC, categoria, requisito
