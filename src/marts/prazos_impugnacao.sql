SELECT company, edital_id, data_sessao_dia, prazo_impugnacao, lei_aplicavel, regra_impugnacao, ultimo_dia_impugnacao,
  dias_ate_prazo(ultimo_dia_impugnacao, comecou, hoje) AS dias_ate_impugnacao,
  certeza_impugnacao, ato_lido, trecho_lido, ultimo_dia_esclarecimento,
  dias_ate_prazo(ultimo_dia_esclarecimento, comecou, hoje) AS dias_ate_esclarecimento,
  regra_esclarecimento, certeza_esclarecimento, trecho_esclarecimento
FROM prazos_calculados
JOIN (
  SELECT company, edital_id, local_time(company, agora())::DATE AS hoje, situacao_sessao = 'passada' AS comecou
  FROM editais_ativos
) USING (company, edital_id)
