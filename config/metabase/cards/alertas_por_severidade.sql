-- Alertas por severidade e ação
-- Alertas de editais em andamento.
SELECT severidade AS "Severidade", coalesce(acao, 'Nenhuma') AS "Ação", count(*) AS "Alertas"
FROM alertas_juridicos
WHERE em_andamento [[AND uf = {{uf}}]]
GROUP BY severidade, severidade_ordem, coalesce(acao, 'Nenhuma')
ORDER BY severidade_ordem, severidade, "Ação"
