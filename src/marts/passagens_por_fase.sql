-- The API does not report transitions: we know only when a version with another phase was first observed. A stay also
-- ends when the notice is gone; if it returns, even to the same phase, that is another stay.
WITH leituras AS (
  SELECT company, min(finished_at) FILTER (scan_complete AND mode IN ('full', 'incremental')) AS primeira_leitura
  FROM sync_runs GROUP BY company
),
vistas AS (
  SELECT company, edital_id, status, observed_at, updated_at, created_at, gone_since,
    lag(status) OVER (PARTITION BY company, edital_id ORDER BY observed_at, updated_at) AS status_anterior
  FROM edital_versions
),
entradas AS (
  SELECT company, edital_id, status, created_at, status_anterior, observed_at AS entrou_em,
    lead(coalesce(gone_since, observed_at)) OVER (
      PARTITION BY company, edital_id ORDER BY observed_at, updated_at
    ) AS proxima_em
  FROM vistas
  WHERE status_anterior IS DISTINCT FROM status OR gone_since IS NOT NULL
)
SELECT company, edital_id, status,
  coalesce(fase, status) AS fase,
  coalesce(fase_ordem, 9) AS fase_ordem,
  entrou_em,
  coalesce(proxima_em, deleted_at) AS saiu_em,
  saiu_em IS NULL AS em_curso,
  (epoch_ms(coalesce(saiu_em, agora())) - epoch_ms(entrou_em)) / 86400000 AS dias,
  -- The company followed the notice before the first reading of the whole list: nobody saw when it entered its phase.
  status_anterior IS NULL AND coalesce(least(created_at, entrou_em) <= primeira_leitura, true) AS censurada
FROM entradas
LEFT JOIN (SELECT company, edital_id, deleted_at FROM editais) USING (company, edital_id)
LEFT JOIN leituras USING (company)
LEFT JOIN fases USING (status)
