SELECT company, edital_id, data_sessao_dia, prazo_impugnacao, lei_aplicavel, regra_impugnacao, ultimo_dia_impugnacao,
  date_diff('day', local_time(company, agora())::DATE, ultimo_dia_impugnacao) AS dias_ate_impugnacao,
  certeza_impugnacao, ato_lido, trecho_lido, ultimo_dia_esclarecimento,
  date_diff('day', local_time(company, agora())::DATE, ultimo_dia_esclarecimento) AS dias_ate_esclarecimento,
  regra_esclarecimento, certeza_esclarecimento, trecho_esclarecimento
FROM prazos_calculados
