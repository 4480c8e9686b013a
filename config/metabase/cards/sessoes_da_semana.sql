-- Sessões de hoje e dos próximos seis dias
-- De editais em andamento; horário local; as primeiras 50 linhas.
SELECT data_sessao_local AS "Sessão", dias_ate_sessao AS "Dias", curto(orgao, 50) AS "Órgão", uf AS "UF", com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto",
  valor_estimado_informado AS "Valor", recomendacao AS "Parecer",
  CASE WHEN participation_confirmed THEN 'sim' ELSE 'não' END AS "Confirmada", requisitos_vermelhos AS "Vermelhos",
  pncp_url AS "PNCP"
FROM agenda_sessoes
WHERE dias_ate_sessao < 7 [[AND chave(uf) = chave({{uf}})]]
ORDER BY data_sessao_local, edital_id
LIMIT 50
