SELECT company, edital_id, data_sessao_local, data_sessao_dia,
  ['segunda', 'terça', 'quarta', 'quinta', 'sexta', 'sábado', 'domingo'][isodow(data_sessao_dia)] AS dia_da_semana,
  date_trunc('week', data_sessao_dia)::DATE AS semana,
  dias_ate_sessao, ultimo_dia_impugnacao, dias_ate_impugnacao,
  orgao, uf, modalidade, numero, objeto, fase, participation_confirmed, valor_estimado_informado,
  verdict_recommendation, requisitos_vermelhos, requisitos_amarelos, alertas_criticos, alertas_altos, pncp_url,
  regra_impugnacao, recomendacao, certeza_impugnacao, contado_no_edital, contado_no_numero
FROM edital_resumo
WHERE em_andamento AND situacao_sessao = 'futura'
ORDER BY company, data_sessao_local, edital_id
