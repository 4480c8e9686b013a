-- Sessões perdidas por semana
-- Sessões que passaram sem participação confirmada, embora o parecer fosse Participar ou Cautela; nesta semana e nas
-- 11 anteriores, pela segunda-feira.
SELECT semana AS "Semana",
  count(*) FILTER (verdict_recommendation = 'participar') AS "Participar",
  count(*) FILTER (verdict_recommendation = 'cautela') AS "Cautela"
FROM semanas(-11, 0)
LEFT JOIN sessoes_perdidas USING (semana)
GROUP BY semana
ORDER BY semana
LIMIT 100
