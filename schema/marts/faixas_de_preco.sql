-- Two passes, because medians of items that are alone in their group would cost most of the time. A hash stands for the
-- description, because comparing texts costs more than reading them.
WITH precos AS MATERIALIZED (
  SELECT company, edital_id, trim(descricao, E' \t\r\n' || chr(160)) AS descricao,
    hash(lower(trim(descricao, E' \t\r\n' || chr(160)))) AS chave,
    unidade_comparavel(unidade_medida) AS unidade, valor_unitario_estimado AS preco
  FROM items
  WHERE valor_unitario_estimado > 0 AND NOT valor_suspeito(valor_unitario_estimado) AND descricao <> ''
),
repetidos AS (
  SELECT chave FROM precos GROUP BY chave HAVING count(*) >= 3
)
SELECT company, min(descricao) AS descricao, unidade,
  count(*) AS itens,
  count(DISTINCT edital_id) AS editais,
  min(preco) AS preco_min,
  quantile_cont(preco, 0.1) AS preco_p10,
  median(preco) AS preco_mediano,
  quantile_cont(preco, 0.9) AS preco_p90,
  max(preco) AS preco_max
FROM precos SEMI JOIN repetidos USING (chave)
GROUP BY company, chave, unidade
HAVING count(DISTINCT edital_id) >= 3
ORDER BY company, editais DESC, descricao, unidade
