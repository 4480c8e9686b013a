-- Antecedência por órgão
-- Dias entre a chegada de um edital à empresa e a sessão, por órgão com dois editais ou mais; os que deixam menos tempo primeiro.
SELECT curto(coalesce(orgao, 'não informado'), 60) AS "Órgão", uf AS "UF", editais AS "Editais", editais_curtos AS "Com menos de 8 dias",
  dias_minimo AS "Menor (dias)", round(dias_mediana, 1) AS "Mediana (dias)"
FROM antecedencia_por_orgao
WHERE editais > 1
ORDER BY dias_mediana, editais DESC, coalesce(orgao_cnpj, orgao, 'não informado')
LIMIT 50
