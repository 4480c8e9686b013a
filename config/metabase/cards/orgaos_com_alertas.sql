-- Órgãos com mais alertas
-- Alertas críticos e altos de editais em andamento, por órgão.
SELECT coalesce(max(orgao), 'não informado') AS "Órgão", count(*) AS "Alertas"
FROM alertas_juridicos
WHERE em_andamento AND NOT oportunidade AND severidade_ordem <= 2 [[AND uf = {{uf}}]]
-- Buyers of one name are many.
GROUP BY coalesce(orgao_cnpj, orgao)
ORDER BY "Alertas" DESC, "Órgão"
LIMIT 12
