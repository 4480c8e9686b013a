-- Alertas e prazos
-- Alertas de editais em andamento: primeiro os prazos abertos, do mais próximo ao mais distante; depois, os das outras sessões
-- por vir.
-- Oportunidades não têm severidade, porque não são riscos.
SELECT prazo AS "Prazo", dias_ate_prazo AS "Faltam (dias)", regra_prazo AS "Regra do prazo", certeza_prazo AS "Certeza do prazo", acao AS "Ação", tipo AS "Tipo", CASE WHEN NOT oportunidade THEN severidade END AS "Severidade",
  titulo AS "Alerta", descricao AS "Descrição", legal_thesis AS "Tese jurídica", orgao AS "Órgão",
  uf AS "UF", numero AS "Número", objeto AS "Objeto", fase AS "Fase", data_sessao_dia AS "Sessão",
  situacao_sessao AS "Situação da sessão"
FROM alertas_juridicos
WHERE em_andamento [[AND chave(uf) = chave({{uf}})]]
ORDER BY CASE WHEN dias_ate_prazo >= 0 THEN dias_ate_prazo END NULLS LAST, (situacao_sessao = 'futura') DESC,
  abs(dias_ate_prazo) NULLS LAST, oportunidade,
  severidade_ordem, edital_id, ordinal
