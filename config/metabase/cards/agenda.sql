-- Agenda de sessões
-- Sessões por vir de editais em andamento, da mais próxima à mais distante; horário local; as primeiras 200 linhas.
SELECT data_sessao_local AS "Sessão", dias_ate_sessao AS "Dias", curto(orgao, 50) AS "Órgão", uf AS "UF", com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto",
  valor_estimado_informado AS "Valor", recomendacao AS "Parecer", requisitos_vermelhos AS "Vermelhos",
  ultimo_dia_impugnacao AS "Impugnar até", certeza_impugnacao AS "Certeza", pncp_url AS "PNCP",
  dia_da_semana AS "Dia da semana", regra_impugnacao AS "Regra do prazo", modalidade AS "Modalidade", numero AS "Número", fase AS "Fase",
  requisitos_amarelos AS "Amarelos", alertas_criticos AS "Alertas críticos", contado_no_numero AS "Republicado no nº"
FROM agenda_sessoes
WHERE true [[AND chave(uf) = chave({{uf}})]]
ORDER BY data_sessao_local, edital_id
LIMIT 200
