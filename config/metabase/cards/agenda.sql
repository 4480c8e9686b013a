-- Agenda de sessões
-- Sessões por vir de editais em andamento, da mais próxima à mais distante; horário local.
SELECT data_sessao_local AS "Sessão", dia_da_semana AS "Dia", dias_ate_sessao AS "Faltam (dias)",
  ultimo_dia_impugnacao AS "Impugnar até", regra_impugnacao AS "Regra do prazo", certeza_impugnacao AS "Certeza do prazo", orgao AS "Órgão", uf AS "UF", modalidade AS "Modalidade",
  numero AS "Número", objeto AS "Objeto", fase AS "Fase", valor_estimado_informado AS "Valor estimado",
  recomendacao AS "Recomendação", requisitos_vermelhos AS "Vermelhos",
  requisitos_amarelos AS "Amarelos", alertas_criticos AS "Alertas críticos", pncp_url AS "PNCP"
FROM agenda_sessoes
WHERE true [[AND chave(uf) = chave({{uf}})]]
ORDER BY data_sessao_local, edital_id
