-- Requisitos por semana
-- Requisitos vermelhos e amarelos dos editais com sessão na semana, pela segunda-feira; oito semanas.
SELECT semana AS "Semana", sum(requisitos_vermelhos)::BIGINT AS "Vermelhos",
  sum(requisitos_amarelos)::BIGINT AS "Amarelos", sum(sessoes)::BIGINT AS "Sessões"
FROM carga_de_trabalho
-- Eight whole weeks: with more days, the last one would be cut.
WHERE semana < date_trunc('week', dia - dias_ate::INTEGER)::DATE + 56
GROUP BY semana
ORDER BY semana
LIMIT 100
