-- Alertas e prazos
-- Alertas de editais em andamento: primeiro os prazos abertos, do mais próximo ao mais distante; depois, os das outras sessões
-- por vir.
-- Oportunidades não têm severidade, porque não são riscos; as primeiras 200 linhas.
SELECT prazo AS "Prazo", dias_ate_prazo AS "Dias", certeza_prazo AS "Certeza", acao AS "Ação",
  CASE WHEN NOT oportunidade THEN severidade END AS "Severidade", curto(titulo, 80) AS "Alerta", curto(descricao, 120) AS "Descrição",
  com_republicacao(nome_do_edital(orgao, numero), contado_no_numero) AS "Edital", uf AS "UF",
  data_sessao_dia AS "Sessão em", regra_prazo AS "Regra do prazo", tipo AS "Tipo", legal_thesis AS "Tese jurídica",
  com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", fase AS "Fase", situacao_sessao AS "Situação da sessão", pncp_url AS "PNCP"
FROM (
  FROM alertas_juridicos
  WHERE em_andamento [[AND chave(uf) = chave({{uf}})]]
  ORDER BY CASE WHEN dias_ate_prazo >= 0 THEN dias_ate_prazo END NULLS LAST, (situacao_sessao = 'futura') DESC,
    abs(dias_ate_prazo) NULLS LAST, oportunidade,
    severidade_ordem, edital_id, ordinal
  LIMIT 200
)
