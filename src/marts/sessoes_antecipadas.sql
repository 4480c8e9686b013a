SELECT company, edital_id, sessao_antes AS sessao_anterior, sessao AS sessao_nova,
  date_diff('day', sessao::DATE, sessao_antes::DATE) AS dias_antecipados,
  data_sessao_local, dias_ate_sessao, situacao_sessao, ultimo_dia_impugnacao, dias_ate_impugnacao, certeza_impugnacao,
  participation_confirmed, fase, em_andamento, orgao, uf, numero, objeto, valor_estimado_informado,
  observed_at AS observado_em, local_time(company, observed_at)::DATE AS observado_dia, pncp_url, contado_no_numero
FROM (SELECT company, edital_id, observed_at, sessao, sessao_antes FROM versoes_seguidas() WHERE sessao < sessao_antes)
JOIN editais_ativos USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, ultimo_dia_impugnacao, dias_ate_impugnacao, certeza_impugnacao FROM prazos_impugnacao
) USING (company, edital_id)
