-- Sessões em 7 dias
-- Sessões públicas de hoje e dos seis dias seguintes, de editais em andamento.
SELECT count(*) AS "Sessões"
FROM agenda_sessoes
WHERE dias_ate_sessao < 7 [[AND chave(uf) = chave({{uf}})]]
