-- Sessões em 7 dias sem confirmação
-- Entre elas, as de editais cuja participação ninguém confirmou.
SELECT count(*) AS "Sessões"
FROM agenda_sessoes
WHERE dias_ate_sessao < 7 AND participation_confirmed IS NOT TRUE [[AND chave(uf) = chave({{uf}})]]
