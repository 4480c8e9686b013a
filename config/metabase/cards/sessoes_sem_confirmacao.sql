-- Sem confirmação (7 dias)
-- Entre as sessões de hoje e dos seis dias seguintes, as de editais cuja participação ninguém confirmou.
SELECT count(*) AS "Sessões"
FROM agenda_sessoes
WHERE dias_ate_sessao < 7 AND participation_confirmed IS NOT TRUE [[AND chave(uf) = chave({{uf}})]]
