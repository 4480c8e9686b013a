-- Alertas por severidade e ação
-- Alertas de editais em andamento com sessão por vir, sem as oportunidades: oportunidade não é risco, seja qual for a
-- severidade.
SELECT severidade AS "Severidade", coalesce(acao, 'Nenhuma') AS "Ação", count(*) AS "Alertas"
FROM alertas_juridicos
WHERE em_andamento AND situacao_sessao = 'futura' AND NOT oportunidade [[AND chave(uf) = chave({{uf}})]]
GROUP BY severidade, severidade_ordem, coalesce(acao, 'Nenhuma')
ORDER BY severidade_ordem, severidade, "Ação"
LIMIT 100
