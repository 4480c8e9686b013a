-- Alertas críticos
-- Em editais em andamento com sessão por vir, sem as oportunidades.
SELECT count(*) AS "Alertas"
FROM alertas_juridicos
WHERE em_andamento AND situacao_sessao = 'futura' AND NOT oportunidade AND severidade_ordem = 1 [[AND chave(uf) = chave({{uf}})]]
