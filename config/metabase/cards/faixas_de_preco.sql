-- Faixas de preço
-- Preços unitários de itens com a mesma descrição e unidade em três editais ou mais; os mais frequentes primeiro.
SELECT descricao AS "Item", unidade AS "Unidade", editais AS "Editais", itens AS "Itens", preco_p10 AS "P10",
  preco_mediano AS "Mediana", preco_p90 AS "P90"
FROM faixas_de_preco
ORDER BY editais DESC, itens DESC, descricao, unidade
LIMIT 100
