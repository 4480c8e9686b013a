-- Prazos perdidos
-- Alertas críticos e altos de editais em andamento cujo prazo de impugnação ou esclarecimento passou, com sessão por vir ou sem data; as
-- primeiras 50 linhas, das mais recentes às mais antigas.
SELECT prazo AS "Prazo", dias_desde_prazo AS "Há (dias)", acao AS "Ação", severidade AS "Severidade", curto(titulo, 80) AS "Alerta",
  curto(orgao, 50) AS "Órgão", uf AS "UF", com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", data_sessao_dia AS "Sessão em",
  pncp_url AS "PNCP"
FROM prazos_perdidos
WHERE true [[AND chave(uf) = chave({{uf}})]]
ORDER BY prazo DESC, severidade_ordem, edital_id, ordinal
LIMIT 50
