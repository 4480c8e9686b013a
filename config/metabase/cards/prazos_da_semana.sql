-- Prazos de hoje e dos próximos seis dias
-- Alertas de editais em andamento que pedem impugnação ou esclarecimento, pelo dia em que o prazo acaba; as primeiras 50 linhas.
SELECT prazo AS "Prazo", dias_ate_prazo AS "Dias", certeza_prazo AS "Certeza", acao AS "Ação",
  CASE WHEN NOT oportunidade THEN severidade END AS "Severidade", curto(titulo, 80) AS "Alerta", curto(orgao, 50) AS "Órgão", uf AS "UF",
  com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", data_sessao_dia AS "Sessão em", pncp_url AS "PNCP"
FROM alertas_juridicos
WHERE em_andamento AND dias_ate_prazo BETWEEN 0 AND 6 [[AND chave(uf) = chave({{uf}})]]
ORDER BY dias_ate_prazo, oportunidade, severidade_ordem, edital_id, ordinal
LIMIT 50
