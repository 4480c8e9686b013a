SELECT company,
  CASE overview_exclusivo_me_epp WHEN true THEN 'exclusivo' WHEN false THEN 'não exclusivo' ELSE 'não informado' END AS participacao,
  count(*) AS editais,
  count(*) FILTER (em_andamento) AS editais_em_andamento,
  count(*) FILTER (participation_confirmed) AS confirmados,
  count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
  soma(valor_somado) AS valor_total,
  soma(CASE WHEN em_andamento THEN valor_somado END) AS valor_em_andamento,
  soma(CASE WHEN em_andamento AND situacao_sessao = 'futura' THEN valor_somado END) AS valor_sessao_futura
FROM editais_ativos
LEFT JOIN (SELECT company, edital_id, overview_exclusivo_me_epp FROM analyses) USING (company, edital_id)
GROUP BY company, participacao
ORDER BY company, participacao
