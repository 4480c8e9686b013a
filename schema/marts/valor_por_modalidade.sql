SELECT company,
  coalesce(e.modalidade, 'não informada') AS modalidade,
  count(*) AS editais,
  count(*) FILTER (em_andamento) AS editais_em_andamento,
  count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)), 0)::DOUBLE AS valor_total,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (em_andamento), 0)::DOUBLE AS valor_em_andamento,
  median(valor_estimado_informado) AS valor_mediano,
  count(*) FILTER (em_andamento AND situacao_sessao = 'futura') AS editais_sessao_futura,
  count(*) FILTER (em_andamento AND situacao_sessao = 'passada') AS editais_sessao_passada,
  count(*) FILTER (em_andamento AND situacao_sessao = 'sem data') AS editais_sem_sessao,
  coalesce(
    sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (em_andamento AND situacao_sessao = 'futura'), 0
  )::DOUBLE AS valor_sessao_futura,
  coalesce(
    sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (em_andamento AND situacao_sessao = 'passada'), 0
  )::DOUBLE AS valor_sessao_passada,
  coalesce(
    sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (em_andamento AND situacao_sessao = 'sem data'), 0
  )::DOUBLE AS valor_sem_sessao
FROM editais_ativos e
GROUP BY ALL
ORDER BY company, valor_em_andamento DESC, valor_total DESC, editais DESC, modalidade
