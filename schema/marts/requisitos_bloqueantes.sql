-- Titles that differ only in case or white space are one requirement.
WITH vermelhos AS (
  SELECT company, edital_id, category AS categoria,
    coalesce(nullif(trim(regexp_replace(title, '\s+', ' ', 'g')), ''), 'sem título') AS requisito,
    valor_estimado_informado AS valor, data_sessao_dia
  FROM requirements r
  JOIN editais_ativos USING (company, edital_id)
  WHERE r.status = 'red' AND em_andamento AND situacao_sessao <> 'passada'
),
-- One row for each requirement of a notice, however often the notice repeats it.
por_edital AS (
  SELECT company, edital_id, categoria, lower(requisito) AS chave, min(requisito) AS requisito, valor,
    data_sessao_dia
  FROM vermelhos
  GROUP BY company, edital_id, categoria, chave, valor, data_sessao_dia
),
contados AS (
  SELECT company, edital_id, count(*) AS do_edital FROM por_edital GROUP BY ALL
)
SELECT company, categoria, coalesce(categoria_rotulo, categoria) AS categoria_rotulo,
  min(requisito) AS requisito,
  count(*) AS editais,
  count(*) FILTER (valor IS NULL) AS sem_valor,
  coalesce(sum(valor::DECIMAL(20, 4)), 0)::DOUBLE AS valor_total,
  count(*) FILTER (do_edital = 1) AS editais_so_este,
  coalesce(sum(valor::DECIMAL(20, 4)) FILTER (do_edital = 1), 0)::DOUBLE AS valor_so_este,
  min(data_sessao_dia) AS proxima_sessao_dia
FROM por_edital
JOIN contados USING (company, edital_id)
LEFT JOIN (
  SELECT codigo AS categoria, rotulo AS categoria_rotulo FROM rotulos WHERE coluna = 'requirements.category'
) USING (categoria)
GROUP BY company, categoria, categoria_rotulo, chave
ORDER BY company, valor_total DESC, editais DESC, categoria, requisito
