-- Editais com risco alto
-- Editais em andamento, com sessão por vir e ao menos um alerta crítico ou alto, sem as oportunidades.
SELECT count(DISTINCT edital_id) AS "Editais"
FROM alertas_juridicos
WHERE em_andamento AND situacao_sessao = 'futura' AND NOT oportunidade AND severidade_ordem <= 2 [[AND chave(uf) = chave({{uf}})]]
