-- Each price is compared with the median of the same item (`faixas_de_preco`), so that buyers of different items can be compared. The
-- texts of items are read once, and a buyer's name is looked up once for each notice.
WITH repetidos AS MATERIALIZED (SELECT company, edital_id, preco, chave_item FROM itens_repetidos()),
comparados AS MATERIALIZED (
  SELECT company, edital_id, preco / preco_mediano AS relativo
  FROM repetidos
  JOIN (
    SELECT chave_item, quantile_cont(preco, [0.1, 0.5, 0.9])[2] AS preco_mediano
    FROM repetidos
    SEMI JOIN (SELECT chave_item FROM repetidos GROUP BY chave_item HAVING count(*) >= 3) USING (chave_item)
    GROUP BY chave_item
    HAVING faixa_comparavel(count(DISTINCT edital_id), quantile_cont(preco, [0.1, 0.5, 0.9]))
  ) USING (chave_item)
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
