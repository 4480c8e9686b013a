-- The days of a censored stay are a lower bound, so it is counted but not measured.
SELECT company, status, fase, fase_ordem,
  count(*) AS passagens,
  count(*) FILTER (NOT em_curso) AS concluidas,
  count(*) FILTER (em_curso) AS em_curso,
  median(dias) FILTER (NOT passagens_por_fase.em_curso AND NOT censurada) AS dias_mediana,
  avg(dias) FILTER (NOT passagens_por_fase.em_curso AND NOT censurada) AS dias_media,
  quantile_cont(dias, 0.9) FILTER (NOT passagens_por_fase.em_curso AND NOT censurada) AS dias_p90,
  median(dias) FILTER (passagens_por_fase.em_curso AND NOT censurada) AS em_curso_dias_mediana,
  count(*) FILTER (NOT passagens_por_fase.em_curso AND censurada) AS concluidas_censuradas,
  count(*) FILTER (passagens_por_fase.em_curso AND censurada) AS em_curso_censuradas
FROM passagens_por_fase
GROUP BY company, status, fase, fase_ordem
ORDER BY company, fase_ordem, status
