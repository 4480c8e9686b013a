-- Maiores editais em disputa
-- Os cem de maior valor estimado entre os editais em andamento com sessão por vir; uma compra republicada aparece uma vez.
SELECT valor_estimado_informado AS "Valor", curto(orgao, 50) AS "Órgão", uf AS "UF", curto(objeto, 80) AS "Objeto",
  modalidade AS "Modalidade", fase AS "Fase", data_sessao_local AS "Sessão",
  recomendacao AS "Parecer", pncp_url AS "PNCP"
FROM agenda_sessoes
WHERE valor_estimado_informado IS NOT NULL AND contado_no_edital IS NULL
ORDER BY valor_estimado_informado DESC, edital_id
LIMIT 100
