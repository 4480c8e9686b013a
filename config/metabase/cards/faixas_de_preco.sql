-- Faixas de preço
-- Até que preço unitário custam 10%, metade e 90% dos itens com a mesma descrição e unidade em três editais ou mais; os mais frequentes
-- primeiro. Serviços, descrições genéricas ou de uma só palavra e preços simbólicos ficam de fora. As datas são de quando a empresa
-- passou a acompanhar o primeiro e o último desses editais.
SELECT curto(descricao, 120) AS "Item", curto(unidade, 16) AS "Unidade", editais AS "Editais", itens AS "Itens", preco_p10 AS "10% até",
  preco_mediano AS "Metade até", preco_p90 AS "90% até", primeiro_dia AS "Desde", ultimo_dia AS "Até"
FROM faixas_de_preco
ORDER BY editais DESC, itens DESC, descricao, unidade
LIMIT 100
