SELECT company,
  coalesce(e.modalidade, 'não informada') AS modalidade,
  count(*) AS editais,
  count(*) FILTER (em_andamento) AS editais_em_andamento,
  count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
  soma(valor_somado) AS valor_total,
  soma(CASE WHEN em_andamento THEN valor_somado END) AS valor_em_andamento,
  median(valor_estimado_informado) AS valor_mediano,
  count(*) FILTER (em_andamento AND situacao_sessao = 'futura') AS editais_sessao_futura,
  count(*) FILTER (em_andamento AND situacao_sessao = 'passada') AS editais_sessao_passada,
  count(*) FILTER (em_andamento AND situacao_sessao = 'sem data') AS editais_sem_sessao,
  soma(CASE WHEN em_andamento AND situacao_sessao = 'futura' THEN valor_somado END) AS valor_sessao_futura,
  soma(CASE WHEN em_andamento AND situacao_sessao = 'passada' THEN valor_somado END) AS valor_sessao_passada,
  soma(CASE WHEN em_andamento AND situacao_sessao = 'sem data' THEN valor_somado END) AS valor_sem_sessao
FROM editais_ativos e
GROUP BY ALL
ORDER BY company, valor_em_andamento DESC, valor_total DESC, editais DESC, modalidade
