-- Alertas críticos
-- Em editais em andamento, sem as oportunidades.
SELECT count(*) AS "Alertas"
FROM alertas_juridicos
WHERE em_andamento AND NOT oportunidade AND severidade_ordem = 1 [[AND chave(uf) = chave({{uf}})]]
