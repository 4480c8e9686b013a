-- Sessões perdidas
-- Os editais dessas sessões, sem os descartados; as últimas sessões primeiro.
SELECT data_sessao_dia AS "Sessão em", dias_desde_sessao AS "Há (dias)", curto(orgao, 50) AS "Órgão", uf AS "UF", numero AS "Número",
  com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", fase AS "Fase", recomendacao AS "Parecer", valor_estimado_informado AS "Valor",
  requisitos_vermelhos AS "Vermelhos", pncp_url AS "PNCP"
FROM sessoes_perdidas
ORDER BY data_sessao_dia DESC, valor_estimado_informado DESC NULLS LAST, edital_id
LIMIT 200
