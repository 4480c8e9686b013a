-- Sessões perdidas por semana
-- Sessões que passaram sem participação confirmada, embora o parecer fosse Participar ou Cautela; nas últimas 12 semanas,
-- pela segunda-feira da semana.
SELECT semana AS "Semana",
  count(*) FILTER (verdict_recommendation = 'participar') AS "Participar",
  count(*) FILTER (verdict_recommendation = 'cautela') AS "Cautela"
FROM sessoes_perdidas
WHERE dias_desde_sessao < 84
GROUP BY semana
ORDER BY semana
