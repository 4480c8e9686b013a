-- Antecedência por órgão
-- Dias corridos entre o dia em que a empresa passou a acompanhar o edital e a data atual da sessão, por órgão com três editais ou mais;
-- a menor antecedência primeiro. Não é o prazo que o órgão deu: o edital pode ter sido achado dias depois de publicado, e a sessão,
-- adiada.
SELECT curto(coalesce(orgao, 'não informado'), 60) AS "Órgão", uf AS "UF", editais AS "Editais", editais_curtos AS "Menos de 8 dias corridos",
  dias_minimo AS "Menor (dias)", round(dias_mediana, 1) AS "Mediana (dias)"
FROM antecedencia_por_orgao
WHERE editais > 2
ORDER BY dias_mediana, editais DESC, coalesce(orgao_cnpj, orgao, 'não informado')
LIMIT 50
