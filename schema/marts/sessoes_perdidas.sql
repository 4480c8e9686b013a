-- Discarded notices are in descartes_recomendados.
SELECT company, edital_id, orgao_cnpj, orgao, uf, numero, modalidade, objeto, status, fase,
  data_sessao_dia,
  date_trunc('week', data_sessao_dia)::DATE AS semana,
  -dias_ate_sessao AS dias_desde_sessao,
  verdict_recommendation, recomendacao, verdict_reason,
  valor_estimado_informado, requisitos_vermelhos, pncp_url
FROM edital_resumo
WHERE situacao_sessao = 'passada' AND status <> 'discarded'
  AND participation_confirmed IS DISTINCT FROM true
  AND verdict_recommendation IN ('participar', 'cautela')
ORDER BY company, data_sessao_dia DESC, edital_id
