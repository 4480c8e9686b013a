-- Tempo por fase
-- Mediana de dias em cada fase, como observada: das passagens que terminaram e das que continuam. As que já estavam em
-- curso na primeira leitura têm início desconhecido: contam, mas não são medidas.
SELECT fase AS "Fase", round(dias_mediana, 1) AS "Concluídas (dias)",
  round(em_curso_dias_mediana, 1) AS "Em curso (dias)",
  concluidas - concluidas_censuradas AS "Concluídas medidas", concluidas_censuradas AS "Concluídas não medidas",
  em_curso - em_curso_censuradas AS "Em curso medidas", em_curso_censuradas AS "Em curso não medidas"
FROM tempo_por_fase
ORDER BY fase_ordem, status
LIMIT 100
