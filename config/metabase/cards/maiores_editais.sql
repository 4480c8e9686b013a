-- Maiores editais em andamento
-- Os cem de maior valor estimado.
SELECT valor_estimado_informado AS "Valor estimado", orgao AS "Órgão", uf AS "UF", objeto AS "Objeto",
  modalidade AS "Modalidade", fase AS "Fase", data_sessao_local AS "Sessão",
  situacao_sessao AS "Situação da sessão",
  recomendacao AS "Recomendação", pncp_url AS "PNCP"
FROM edital_resumo
WHERE em_andamento AND valor_estimado_informado IS NOT NULL
ORDER BY valor_estimado_informado DESC, edital_id
LIMIT 100
