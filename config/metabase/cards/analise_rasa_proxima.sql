-- Sessões em 5 dias sem análise profunda
-- Editais em andamento com sessão de hoje aos quatro dias seguintes cuja análise não é profunda; as primeiras 50 linhas.
SELECT data_sessao_local AS "Sessão", nivel_analise AS "Análise", recomendacao AS "Parecer", curto(orgao, 50) AS "Órgão", uf AS "UF",
  com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", valor_estimado_informado AS "Valor",
  CASE WHEN participation_confirmed THEN 'sim' ELSE 'não' END AS "Confirmada", pncp_url AS "PNCP"
FROM analise_rasa_proxima
WHERE true [[AND chave(uf) = chave({{uf}})]]
ORDER BY data_sessao_local, edital_id
LIMIT 50
