-- Items with a plausible price and a description that three or more have, each with a key of what can be compared: description and
-- unit. A single word names a kind of things, and a service, as a UST (a unit of technical service), is as large as its buyer says.
-- The order of the steps is for speed: comparing texts costs more than comparing hashes, and units are few.
TABLE
WITH precos AS MATERIALIZED (
  SELECT company, edital_id, coalesce(descricao_limpa, descricao) AS limpa, hash(company, lower(limpa)) AS texto, unidade_medida,
    valor_unitario_estimado AS preco
  FROM items
  WHERE valor_unitario_estimado > 0 AND NOT valor_suspeito(valor_unitario_estimado)
    AND material_ou_servico IS DISTINCT FROM 'S' AND contains(limpa, ' ')
)
SELECT company, edital_id, limpa, preco, unidade, hash(texto, unidade) AS chave_item
FROM precos
SEMI JOIN (SELECT texto FROM precos GROUP BY texto HAVING count(*) >= 3) USING (texto)
LEFT JOIN (
  SELECT unidade_medida, unidade_comparavel(unidade_medida) AS unidade FROM (SELECT DISTINCT unidade_medida FROM items)
) USING (unidade_medida)
WHERE unidade IS DISTINCT FROM 'UST'
