-- Sessões por semana
-- Sessões públicas por vir, pela segunda-feira da semana; esta semana e as onze seguintes.
SELECT semana AS "Semana", count(*) AS "Sessões"
FROM agenda_sessoes
-- A session years ahead would leave no room for the next weeks.
WHERE semana < date_trunc('week', local_time(company, agora()))::DATE + 84 [[AND chave(uf) = chave({{uf}})]]
GROUP BY semana
ORDER BY semana
LIMIT 100
