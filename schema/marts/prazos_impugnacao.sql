-- A deadline is over when the session begins, also if it is today.
SELECT company, edital_id, data_sessao_dia, prazo_impugnacao, lei_aplicavel, regra_impugnacao, ultimo_dia_impugnacao,
  CASE WHEN comecou AND ultimo_dia_impugnacao >= hoje THEN -1 ELSE date_diff('day', hoje, ultimo_dia_impugnacao) END
    AS dias_ate_impugnacao,
  certeza_impugnacao, ato_lido, trecho_lido, ultimo_dia_esclarecimento,
  CASE WHEN comecou AND ultimo_dia_esclarecimento >= hoje THEN -1 ELSE date_diff('day', hoje, ultimo_dia_esclarecimento) END
    AS dias_ate_esclarecimento,
  regra_esclarecimento, certeza_esclarecimento, trecho_esclarecimento
FROM prazos_calculados
JOIN (
  SELECT company, edital_id, local_time(company, agora())::DATE AS hoje, situacao_sessao = 'passada' AS comecou
  FROM editais_ativos
) USING (company, edital_id)
