-- Sessões perdidas
-- Os editais dessas sessões, sem os descartados; as últimas sessões primeiro.
SELECT data_sessao_dia AS "Sessão", dias_desde_sessao AS "Há (dias)", orgao AS "Órgão", uf AS "UF", numero AS "Número",
  objeto AS "Objeto", fase AS "Fase", recomendacao AS "Recomendação", valor_estimado_informado AS "Valor estimado",
  requisitos_vermelhos AS "Vermelhos", pncp_url AS "PNCP"
FROM sessoes_perdidas
ORDER BY data_sessao_dia DESC, valor_estimado_informado DESC NULLS LAST, edital_id
LIMIT 200
