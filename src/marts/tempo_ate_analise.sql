-- What the company followed before the first reading of the whole list may have been analysed before anybody looked. A simple
-- analysis is the screening itself. What we do not read (ANALYSIS_STATUSES), or could not use, may have been analysed.
WITH leituras AS (
  SELECT company, min(finished_at) FILTER (scan_complete AND mode IN ('full', 'incremental')) AS primeira_leitura
  FROM sync_runs GROUP BY company
),
analisados AS (
  SELECT company, edital_id, min(observed_at) AS analisado_em
  FROM analysis_versions
  WHERE analysis_level IN ('medium', 'deep')
  GROUP BY ALL
),
medidos AS (
  SELECT company, date_trunc('week', criado_local)::DATE AS semana, analisado_em,
    CASE WHEN created_at > primeira_leitura AND analisado_em IS NOT NULL THEN
      greatest(epoch_ms(analisado_em) - epoch_ms(created_at), 0) / 86400000
    END AS dias
  FROM editais_ativos
  LEFT JOIN analisados USING (company, edital_id)
  LEFT JOIN leituras USING (company)
  WHERE criado_local IS NOT NULL AND (analisado_em IS NOT NULL OR analysis_state NOT IN ('excluded', 'quarantined'))
)
SELECT company, semana,
  count(*) AS editais,
  count(analisado_em) AS analisados,
  count(*) - count(analisado_em) AS sem_analise,
  count(dias) AS medidos,
  median(dias) AS dias_mediana,
  max(dias) AS dias_maximo
FROM medidos
GROUP BY company, semana
ORDER BY company, semana DESC
