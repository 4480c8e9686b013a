-- Órgãos com mais alertas
-- Alertas críticos e altos de editais em andamento, por órgão.
SELECT coalesce(orgao, 'não informado') AS "Órgão", count(*) AS "Alertas"
FROM alertas_juridicos
WHERE em_andamento AND type IS DISTINCT FROM 'opportunity' AND severidade_ordem <= 2 [[AND uf = {{uf}}]]
GROUP BY ALL
ORDER BY "Alertas" DESC, "Órgão"
LIMIT 12
