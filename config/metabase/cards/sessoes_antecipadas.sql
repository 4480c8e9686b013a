-- Sessões antecipadas
-- Sessões por vir de editais em andamento que passaram a começar mais cedo do que tínhamos visto, sem as que mudaram de novo; zero dias a
-- menos: no mesmo dia, mais cedo; horário local; as primeiras 50 linhas, das mais próximas às mais distantes.
SELECT sessao_anterior AS "De", sessao_nova AS "Para", dias_antecipados AS "Dias a menos", ultimo_dia_impugnacao AS "Impugnar até",
  CASE WHEN participation_confirmed THEN 'sim' ELSE 'não' END AS "Confirmada", curto(orgao, 50) AS "Órgão", uf AS "UF",
  com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", pncp_url AS "PNCP", observado_dia AS "Visto em"
FROM sessoes_antecipadas
WHERE em_andamento AND situacao_sessao = 'futura' AND sessao_nova = data_sessao_local [[AND chave(uf) = chave({{uf}})]]
ORDER BY sessao_nova, edital_id, observado_em
LIMIT 50
