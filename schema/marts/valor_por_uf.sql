SELECT company,
  coalesce(nullif(trim(uf), ''), 'não informada') AS uf,
  count(*) AS editais,
  count(*) FILTER (em_andamento) AS editais_em_andamento,
  count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)), 0)::DOUBLE AS valor_total,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)) FILTER (em_andamento), 0)::DOUBLE AS valor_em_andamento,
  median(valor_estimado_informado) AS valor_mediano
FROM editais_ativos e
GROUP BY ALL
ORDER BY company, valor_em_andamento DESC, valor_total DESC, editais DESC, uf
