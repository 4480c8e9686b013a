-- Sessões por semana
-- Sessões públicas por vir, pela segunda-feira da semana.
SELECT semana AS "Semana", count(*) AS "Sessões"
FROM agenda_sessoes
WHERE true [[AND chave(uf) = chave({{uf}})]]
GROUP BY semana
ORDER BY semana
