-- Each price is compared with the median of the same item, so that buyers of different items can be compared. Descriptions become
-- numbers as soon as they are read, units are few, and a buyer's name is looked up once for each notice.
WITH unidades AS (
  SELECT unidade_medida, unidade_comparavel(unidade_medida) AS unidade FROM (SELECT DISTINCT unidade_medida FROM items)
),
comparados AS MATERIALIZED (
  SELECT company, edital_id, valor_unitario_estimado / preco_mediano AS relativo
  FROM (
    SELECT company, edital_id, valor_unitario_estimado, unidade_medida, hash(lower(coalesce(descricao_limpa, descricao))) AS texto
    FROM items
    WHERE valor_unitario_estimado > 0 AND NOT valor_suspeito(valor_unitario_estimado)
  )
  LEFT JOIN unidades USING (unidade_medida)
  -- All spellings of a group are the same in small letters.
  JOIN (SELECT company, hash(hash(lower(descricao)), unidade) AS chave, preco_mediano FROM faixas_de_preco) f
    USING (company)
  WHERE chave = hash(texto, unidade)
),
compradores AS MATERIALIZED (
  SELECT company, edital_id, coalesce(orgao_cnpj, orgao, 'não informado') AS chave, orgao_cnpj, orgao, uf, updated_at
  FROM editais_ativos
  SEMI JOIN comparados USING (company, edital_id)
)
SELECT company, orgao_cnpj, orgao, uf, itens, editais, diferenca_mediana, itens_acima, itens_abaixo
FROM (
  SELECT company, chave,
    any_value(orgao_cnpj) AS orgao_cnpj,
    arg_max(orgao, (updated_at, edital_id)) FILTER (orgao IS NOT NULL) AS orgao,
    arg_max(uf, (updated_at, edital_id)) FILTER (uf IS NOT NULL) AS uf,
    count(*) AS editais
  FROM compradores
  GROUP BY company, chave
)
JOIN (
  SELECT company, chave,
    count(*) AS itens,
    median(relativo) - 1 AS diferenca_mediana,
    count(*) FILTER (relativo > 1.1) AS itens_acima,
    count(*) FILTER (relativo < 0.9) AS itens_abaixo
  FROM comparados JOIN compradores USING (company, edital_id)
  GROUP BY company, chave
) USING (company, chave)
ORDER BY company, diferenca_mediana DESC, itens DESC, chave
