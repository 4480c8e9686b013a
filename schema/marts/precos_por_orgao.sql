-- Each price is compared with the median of the same item, so that buyers of different items can be compared.
WITH comparados AS (
  SELECT e.company, coalesce(e.orgao_cnpj, e.orgao, 'não informado') AS chave, e.orgao_cnpj, e.orgao, e.uf, e.updated_at, edital_id,
    valor_unitario_estimado / preco_mediano AS relativo
  FROM items i
  JOIN editais_ativos e USING (company, edital_id)
  -- All spellings of a group are the same in small letters.
  JOIN faixas_de_preco f ON f.company = e.company AND lower(f.descricao) = lower(coalesce(descricao_limpa, i.descricao))
    AND coalesce(f.unidade, '') = coalesce(unidade_comparavel(unidade_medida), '')
  WHERE valor_unitario_estimado > 0 AND NOT valor_suspeito(valor_unitario_estimado)
)
SELECT company,
  any_value(orgao_cnpj) AS orgao_cnpj,
  arg_max(orgao, (updated_at, edital_id)) FILTER (orgao IS NOT NULL) AS orgao,
  arg_max(uf, (updated_at, edital_id)) FILTER (uf IS NOT NULL) AS uf,
  count(*) AS itens,
  count(DISTINCT edital_id) AS editais,
  median(relativo) - 1 AS diferenca_mediana,
  count(*) FILTER (relativo > 1.1) AS itens_acima,
  count(*) FILTER (relativo < 0.9) AS itens_abaixo
FROM comparados
GROUP BY company, chave
ORDER BY company, diferenca_mediana DESC, itens DESC, chave
