-- Includes phases without a notice, and phases that exist only in this company's data.
WITH por_fase AS (
  SELECT company, status, count(*) AS editais,
    count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
    soma(valor_somado) AS valor_total,
    median(valor_estimado_informado) AS valor_mediano,
    median(greatest(0, epoch_ms(agora()) - epoch_ms(created_at)) / 86400000) FILTER (criado_local IS NOT NULL)
      AS idade_mediana_dias,
    count(*) FILTER (situacao_sessao = 'futura') AS editais_sessao_futura,
    count(*) FILTER (situacao_sessao = 'passada') AS editais_sessao_passada,
    count(*) FILTER (situacao_sessao = 'sem data') AS editais_sem_sessao,
    soma(CASE WHEN situacao_sessao = 'futura' THEN valor_somado END) AS valor_sessao_futura,
    soma(CASE WHEN situacao_sessao = 'passada' THEN valor_somado END) AS valor_sessao_passada,
    soma(CASE WHEN situacao_sessao = 'sem data' THEN valor_somado END) AS valor_sem_sessao
  FROM editais_ativos GROUP BY ALL
),
todas AS (
  SELECT company, status FROM snapshot_info CROSS JOIN fases
  UNION
  SELECT company, status FROM por_fase
),
em_curso AS (
  SELECT company, status, median(dias) FILTER (NOT censurada) AS dias_na_fase_mediana,
    count(*) FILTER (censurada) AS editais_censurados
  FROM passagens_por_fase WHERE em_curso GROUP BY ALL
)
SELECT company, status,
  coalesce(fase, status) AS fase,
  coalesce(fase_ordem, 9) AS fase_ordem,
  coalesce(em_andamento, true) AS em_andamento,
  coalesce(editais, 0) AS editais,
  coalesce(sem_valor, 0) AS sem_valor,
  coalesce(valor_total, 0) AS valor_total,
  valor_mediano, idade_mediana_dias, dias_na_fase_mediana,
  coalesce(editais_sessao_futura, 0) AS editais_sessao_futura,
  coalesce(editais_sessao_passada, 0) AS editais_sessao_passada,
  coalesce(editais_sem_sessao, 0) AS editais_sem_sessao,
  coalesce(valor_sessao_futura, 0) AS valor_sessao_futura,
  coalesce(valor_sessao_passada, 0) AS valor_sessao_passada,
  coalesce(valor_sem_sessao, 0) AS valor_sem_sessao,
  coalesce(editais_censurados, 0) AS editais_censurados
FROM todas
LEFT JOIN fases USING (status)
LEFT JOIN por_fase USING (company, status)
LEFT JOIN em_curso USING (company, status)
ORDER BY company, fase_ordem, status
