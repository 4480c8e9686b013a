-- The order of the steps is for speed: comparing texts costs more than comparing hashes, and medians of items that are alone
-- in their group cost most of all.
WITH precos AS MATERIALIZED (
  SELECT company, edital_id, coalesce(descricao_limpa, descricao) AS limpa,
    hash(lower(limpa)) AS chave,
    coalesce(unidade_comparavel(unidade_medida), '') AS unidade,
    valor_unitario_estimado AS preco
  FROM items
  WHERE valor_unitario_estimado > 0 AND NOT valor_suspeito(valor_unitario_estimado) AND limpa <> ''
),
repetidos AS (
  SELECT company, chave, unidade FROM precos GROUP BY ALL HAVING count(*) >= 3
),
comparaveis AS (
  SELECT p.*, dia
  FROM precos p
  SEMI JOIN repetidos USING (company, chave, unidade)
  LEFT JOIN (SELECT company, edital_id, local_time(company, created_at)::DATE AS dia FROM editais) USING (company, edital_id)
),
faixas AS (
  SELECT company, chave, unidade, min(limpa) AS descricao, max(limpa) AS outra, count(*) AS itens,
    count(DISTINCT edital_id) AS editais,
    min(preco) AS preco_min, quantile_cont(preco, [0.1, 0.5, 0.9]) AS percentis, max(preco) AS preco_max,
    min(dia) AS primeiro_dia, max(dia) AS ultimo_dia
  FROM comparaveis
  GROUP BY company, chave, unidade
  HAVING count(DISTINCT edital_id) >= 3
),
-- Few have more than one spelling.
grafias_de_item AS (
  SELECT company, chave, unidade, arg_min(limpa, (-itens, limpa)) AS grafia
  FROM (
    SELECT company, chave, unidade, limpa, count(*) AS itens
    FROM comparaveis
    SEMI JOIN (SELECT company, chave, unidade FROM faixas WHERE descricao <> outra) USING (company, chave, unidade)
    GROUP BY ALL
  )
  GROUP BY company, chave, unidade
)
SELECT company, coalesce(grafia, descricao) AS descricao, nullif(unidade, '') AS unidade, itens, editais, preco_min,
  percentis[1] AS preco_p10, percentis[2] AS preco_mediano, percentis[3] AS preco_p90, preco_max,
  primeiro_dia, ultimo_dia
FROM faixas
LEFT JOIN grafias_de_item USING (company, chave, unidade)
-- Under a generic description, things are bought that cannot be compared.
WHERE percentis[3] <= 20 * percentis[1]
ORDER BY company, editais DESC, 2, unidade
