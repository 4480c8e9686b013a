-- Tempo por fase
-- Mediana de dias em cada fase, como observada: das passagens que terminaram e das que continuam.
SELECT fase AS "Fase", round(dias_mediana, 1) AS "Concluídas (dias)",
  round(em_curso_dias_mediana, 1) AS "Em curso (dias)"
FROM tempo_por_fase
ORDER BY fase_ordem, status
