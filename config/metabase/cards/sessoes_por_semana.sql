-- Sessões por semana
-- Sessões públicas por vir, pela segunda-feira da semana; esta semana e as onze seguintes.
SELECT semana AS "Semana", count(a.edital_id) AS "Sessões"
-- A session years ahead would leave no room for the next weeks.
FROM semanas(0, 11)
LEFT JOIN (SELECT semana, edital_id FROM agenda_sessoes WHERE true [[AND chave(uf) = chave({{uf}})]]) a USING (semana)
GROUP BY semana
ORDER BY semana
LIMIT 100
