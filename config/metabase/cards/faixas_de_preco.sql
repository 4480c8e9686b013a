-- Faixas de preço
-- Preços unitários de itens com a mesma descrição e unidade em três editais ou mais; os mais frequentes primeiro. Descrições
-- genéricas, preços simbólicos e UST ficam de fora. As datas são de quando a empresa passou a acompanhar o primeiro e o último desses editais.
SELECT curto(descricao, 120) AS "Item", curto(unidade, 16) AS "Unidade", editais AS "Editais", itens AS "Itens", preco_p10 AS "10% custam até",
  preco_mediano AS "Metade custa até", preco_p90 AS "90% custam até",
  primeiro_dia AS "Primeiro edital em", ultimo_dia AS "Último edital em"
FROM faixas_de_preco
ORDER BY editais DESC, itens DESC, descricao, unidade
LIMIT 100
