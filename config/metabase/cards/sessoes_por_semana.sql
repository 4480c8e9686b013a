-- Sessões por semana
-- Sessões públicas por vir, pela segunda-feira da semana; as doze primeiras semanas que têm sessão.
SELECT semana AS "Semana", count(*) AS "Sessões"
FROM agenda_sessoes
WHERE true [[AND chave(uf) = chave({{uf}})]]
GROUP BY semana
ORDER BY semana
LIMIT 12
