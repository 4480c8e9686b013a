-- Requisitos por semana
-- Requisitos vermelhos e amarelos dos editais com sessão na semana, pela segunda-feira; oito semanas.
SELECT semana AS "Semana", sum(requisitos_vermelhos)::BIGINT AS "Vermelhos",
  sum(requisitos_amarelos)::BIGINT AS "Amarelos", sum(sessoes)::BIGINT AS "Sessões"
FROM carga_de_trabalho
WHERE dias_ate < 50
GROUP BY semana
ORDER BY semana
