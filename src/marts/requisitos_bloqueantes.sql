-- Titles with the same key are one requirement, shown as most notices write it.
WITH vermelhos AS (
  SELECT company, edital_id, category AS categoria,
    coalesce(texto_limpo(title), 'sem título') AS limpo,
    coalesce(chave(title), 'sem titulo') AS chave,
    valor_estimado_informado AS valor, valor_somado, data_sessao_dia, situacao_sessao = 'futura' AS por_vir
  FROM requirements r
  JOIN editais_ativos USING (company, edital_id)
  WHERE r.status = 'red' AND em_andamento AND situacao_sessao <> 'passada'
),
-- One row for each requirement of a notice, however often the notice repeats it.
por_edital AS (
  SELECT company, edital_id, categoria, chave, min(limpo) AS requisito, valor, valor_somado, data_sessao_dia, por_vir
  FROM vermelhos
  GROUP BY company, edital_id, categoria, chave, valor, valor_somado, data_sessao_dia, por_vir
),
contados AS (
  SELECT company, edital_id, count(*) AS do_edital FROM por_edital GROUP BY ALL
),
por_grafia AS (
  SELECT company, categoria, chave, requisito, count(*) AS vistos,
    count(*) FILTER (por_vir) AS editais,
    count(*) FILTER (por_vir AND valor IS NULL) AS sem_valor,
    sum(valor_somado::DECIMAL(20, 4)) FILTER (por_vir) AS valor_total,
    count(*) FILTER (por_vir AND do_edital = 1) AS editais_so_este,
    sum(valor_somado::DECIMAL(20, 4)) FILTER (por_vir AND do_edital = 1) AS valor_so_este,
    min(data_sessao_dia) AS proxima_sessao_dia,
    count(*) FILTER (NOT por_vir) AS editais_sem_sessao,
    sum(valor_somado::DECIMAL(20, 4)) FILTER (NOT por_vir) AS valor_sem_sessao
  FROM por_edital
  JOIN contados USING (company, edital_id)
  GROUP BY ALL
)
SELECT company, categoria, coalesce(categoria_rotulo, categoria) AS categoria_rotulo,
  arg_min(g.requisito, (-g.vistos, g.requisito)) AS requisito,
  sum(g.editais)::BIGINT AS editais,
  sum(g.sem_valor)::BIGINT AS sem_valor,
  coalesce(sum(g.valor_total), 0)::DOUBLE AS valor_total,
  sum(g.editais_so_este)::BIGINT AS editais_so_este,
  coalesce(sum(g.valor_so_este), 0)::DOUBLE AS valor_so_este,
  min(g.proxima_sessao_dia) AS proxima_sessao_dia,
  sum(g.editais_sem_sessao)::BIGINT AS editais_sem_sessao,
  coalesce(sum(g.valor_sem_sessao), 0)::DOUBLE AS valor_sem_sessao
FROM por_grafia g
LEFT JOIN (
  SELECT codigo AS categoria, rotulo AS categoria_rotulo FROM rotulos WHERE coluna = 'requirements.category'
) USING (categoria)
GROUP BY company, categoria, categoria_rotulo, chave
ORDER BY company, valor_total DESC, editais DESC, categoria, requisito
