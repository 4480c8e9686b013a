-- Titles with the same key are one requirement, shown as most notices write it. A notice that repeats one counts once, in its worst
-- colour; without a colour if it is closed, or its session is past. Titles are read once, and numbers and hashes stand for them,
-- because grouping texts takes longer. Most requirements are in one or two notices: they are left out before anything is counted.
WITH requisitos AS MATERIALIZED (
  SELECT company, edital, category AS categoria, title, hash(title) AS texto,
    CASE WHEN aberto THEN CASE status WHEN 'red' THEN 3 WHEN 'yellow' THEN 2 WHEN 'green' THEN 1 END END AS cor
  FROM requirements
  JOIN (
    SELECT company, edital_id, row_number() OVER (ORDER BY company, edital_id) AS edital, em_andamento AND situacao_sessao <> 'passada' AS aberto
    FROM editais_ativos
  ) USING (company, edital_id)
),
titulos AS MATERIALIZED (
  SELECT texto, coalesce(texto_limpo(title), 'sem título') AS limpo,
    hash(coalesce(chave(title), 'sem titulo')) AS grupo,
    dense_rank() OVER (ORDER BY limpo) AS grafia
  FROM (SELECT texto, any_value(title) AS title FROM requisitos GROUP BY ALL)
),
pedidos AS MATERIALIZED (
  SELECT company, edital, categoria, grafia, cor, hash(company, categoria, grupo) AS chave
  FROM requisitos JOIN titulos USING (texto)
),
com_requisitos AS (
  SELECT company, count(DISTINCT edital) AS editais_com_requisitos FROM pedidos GROUP BY company
),
por_edital AS (
  SELECT chave, any_value(company) AS company, any_value(categoria) AS categoria, min(grafia) AS grafia, max(cor) AS cor
  FROM pedidos SEMI JOIN (SELECT chave FROM pedidos GROUP BY chave HAVING count(*) >= 3) USING (chave)
  GROUP BY chave, edital
),
por_grafia AS (
  SELECT company, categoria, chave, grafia, count(*) AS editais,
    count(*) FILTER (cor = 3) AS vermelhos, count(*) FILTER (cor = 2) AS amarelos, count(*) FILTER (cor = 1) AS verdes
  FROM por_edital
  GROUP BY ALL
),
somados AS (
  SELECT company, categoria, arg_min(grafia, (-g.editais, grafia)) AS grafia, sum(g.editais)::BIGINT AS editais,
    sum(vermelhos)::BIGINT AS vermelhos, sum(amarelos)::BIGINT AS amarelos, sum(verdes)::BIGINT AS verdes
  FROM por_grafia g
  GROUP BY company, categoria, chave
  HAVING sum(g.editais) >= 3
)
SELECT company, categoria, coalesce(rotulo, categoria) AS categoria_rotulo, limpo AS requisito, editais,
  editais / editais_com_requisitos AS parcela, vermelhos, amarelos, verdes
FROM somados
JOIN com_requisitos USING (company)
JOIN (SELECT DISTINCT grafia, limpo FROM titulos) USING (grafia)
LEFT JOIN (SELECT codigo AS categoria, rotulo FROM rotulos WHERE coluna = 'requirements.category') USING (categoria)
ORDER BY company, editais DESC, categoria, requisito
