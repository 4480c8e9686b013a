-- Preços por órgão
-- Preços unitários estimados de cada órgão, comparados com a mediana do mesmo item (faixas de preço), dos órgãos com cinco itens comparáveis
-- ou mais; primeiro os que estimam mais alto. Uma estimativa alta deixa margem; uma baixa pode ser inexequível.
SELECT curto(coalesce(orgao, 'não informado'), 60) AS "Órgão", uf AS "UF", editais AS "Editais", itens AS "Itens comparáveis",
  round(100 * diferenca_mediana)::INTEGER AS "Diferença (%)", itens_acima AS "Acima de 10%", itens_abaixo AS "Abaixo de 10%"
FROM precos_por_orgao
WHERE itens >= 5
ORDER BY diferenca_mediana DESC, itens DESC, coalesce(orgao_cnpj, orgao, 'não informado')
LIMIT 50
