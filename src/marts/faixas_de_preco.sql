-- Medians of items that are alone in their group would cost most of all.
WITH repetidos AS MATERIALIZED (FROM itens_repetidos()),
faixas AS (
  SELECT chave_item, any_value(company) AS company, any_value(limpa) AS descricao, min(hash(limpa)) <> max(hash(limpa)) AS outra_grafia,
    any_value(unidade) AS unidade, count(*) AS itens, count(DISTINCT edital_id) AS editais,
    min(preco) AS preco_min, quantile_cont(preco, [0.1, 0.5, 0.9]) AS percentis, max(preco) AS preco_max,
    min(dia) AS primeiro_dia, max(dia) AS ultimo_dia
  FROM repetidos
  SEMI JOIN (SELECT chave_item FROM repetidos GROUP BY chave_item HAVING count(*) >= 3) USING (chave_item)
  LEFT JOIN (SELECT company, edital_id, local_time(company, created_at)::DATE AS dia FROM editais) USING (company, edital_id)
  GROUP BY chave_item
  HAVING faixa_comparavel(count(DISTINCT edital_id), quantile_cont(preco, [0.1, 0.5, 0.9]))
),
-- Few have more than one spelling.
grafias_de_item AS (
  SELECT chave_item, arg_min(limpa, (-itens, limpa)) AS grafia
  FROM (
    SELECT chave_item, limpa, count(*) AS itens
    FROM repetidos
    SEMI JOIN (SELECT chave_item FROM faixas WHERE outra_grafia) USING (chave_item)
    GROUP BY ALL
  )
  GROUP BY chave_item
)
SELECT company, coalesce(grafia, descricao) AS descricao, unidade, itens, editais, preco_min,
  percentis[1] AS preco_p10, percentis[2] AS preco_mediano, percentis[3] AS preco_p90, preco_max,
  primeiro_dia, ultimo_dia
FROM faixas
LEFT JOIN grafias_de_item USING (chave_item)
ORDER BY company, editais DESC, 2, unidade
