-- The order of the steps is for speed: trimming every text costs more than checking its ends, comparing texts more than
-- comparing hashes, and medians of items that are alone in their group cost most of all.
WITH precos AS MATERIALIZED (
  SELECT company, edital_id,
    CASE
      WHEN descricao[1] IN (' ', E'\t', E'\r', E'\n', chr(160)) OR descricao[-1] IN (' ', E'\t', E'\r', E'\n', chr(160))
      THEN trim(descricao, E' \t\r\n' || chr(160))
      ELSE descricao
    END AS aparada,
    hash(lower(aparada)) AS chave, unidade_medida, valor_unitario_estimado AS preco
  FROM items
  WHERE valor_unitario_estimado > 0 AND NOT valor_suspeito(valor_unitario_estimado) AND descricao <> ''
),
repetidos AS (
  SELECT chave FROM precos GROUP BY chave HAVING count(*) >= 3
),
comparaveis AS (
  SELECT company, edital_id, aparada, chave, unidade_comparavel(unidade_medida) AS unidade, preco
  FROM precos SEMI JOIN repetidos USING (chave)
),
faixas AS (
  SELECT company, min(aparada) AS descricao, unidade, count(*) AS itens, count(DISTINCT edital_id) AS editais,
    min(preco) AS preco_min, quantile_cont(preco, [0.1, 0.5, 0.9]) AS percentis, max(preco) AS preco_max
  FROM comparaveis
  GROUP BY company, chave, unidade
  HAVING count(DISTINCT edital_id) >= 3
)
SELECT company, descricao, unidade, itens, editais, preco_min,
  percentis[1] AS preco_p10, percentis[2] AS preco_mediano, percentis[3] AS preco_p90, preco_max
FROM faixas
ORDER BY company, editais DESC, descricao, unidade
