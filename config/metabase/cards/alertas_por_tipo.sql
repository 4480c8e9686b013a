-- Alertas por tipo
-- Tipos de alerta mais frequentes nos editais em andamento com sessão por vir.
SELECT coalesce(tipo, 'não informado') AS "Tipo", count(*) AS "Alertas"
FROM alertas_juridicos
WHERE em_andamento AND situacao_sessao = 'futura' [[AND chave(uf) = chave({{uf}})]]
GROUP BY ALL
ORDER BY "Alertas" DESC, "Tipo"
LIMIT 12
