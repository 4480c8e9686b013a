-- The order of the steps is for speed: comparing texts costs more than comparing hashes, units are cleaned only of descriptions that
-- are repeated, and medians of items that are alone in their group cost most of all.
WITH precos AS MATERIALIZED (
  SELECT company, edital_id, coalesce(descricao_limpa, descricao) AS limpa, hash(company, lower(limpa)) AS texto, unidade_medida,
    valor_unitario_estimado AS preco
  FROM items
  WHERE valor_unitario_estimado > 0 AND NOT valor_suspeito(valor_unitario_estimado) AND limpa <> ''
),
repetidos AS MATERIALIZED (
  SELECT company, edital_id, limpa, preco, unidade_comparavel(unidade_medida) AS unidade, hash(texto, unidade) AS chave
  FROM precos
  SEMI JOIN (SELECT texto FROM precos GROUP BY texto HAVING count(*) >= 3) USING (texto)
),
comparaveis AS (
  SELECT *
  FROM repetidos
  SEMI JOIN (SELECT chave FROM repetidos GROUP BY chave HAVING count(*) >= 3) USING (chave)
  LEFT JOIN (SELECT company, edital_id, local_time(company, created_at)::DATE AS dia FROM editais) USING (company, edital_id)
),
faixas AS (
  SELECT chave, any_value(company) AS company, any_value(unidade) AS unidade, min(limpa) AS descricao, max(limpa) AS outra,
    count(*) AS itens, count(DISTINCT edital_id) AS editais,
    min(preco) AS preco_min, quantile_cont(preco, [0.1, 0.5, 0.9]) AS percentis, max(preco) AS preco_max,
    min(dia) AS primeiro_dia, max(dia) AS ultimo_dia
  FROM comparaveis
  GROUP BY chave
  HAVING count(DISTINCT edital_id) >= 3
),
-- Few have more than one spelling.
grafias_de_item AS (
  SELECT chave, arg_min(limpa, (-itens, limpa)) AS grafia
  FROM (
    SELECT chave, limpa, count(*) AS itens
    FROM comparaveis
    SEMI JOIN (SELECT chave FROM faixas WHERE descricao <> outra) USING (chave)
    GROUP BY ALL
  )
  GROUP BY chave
)
SELECT company, coalesce(grafia, descricao) AS descricao, unidade, itens, editais, preco_min,
  percentis[1] AS preco_p10, percentis[2] AS preco_mediano, percentis[3] AS preco_p90, preco_max,
  primeiro_dia, ultimo_dia
FROM faixas
LEFT JOIN grafias_de_item USING (chave)
-- Under a generic description, things are bought that cannot be compared.
WHERE percentis[3] <= 20 * percentis[1]
ORDER BY company, editais DESC, 2, unidade
