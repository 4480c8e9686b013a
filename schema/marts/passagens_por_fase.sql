-- The API does not report transitions: we know only when a version with another phase was first observed.
WITH vistas AS (
  SELECT company, edital_id, status, observed_at, updated_at,
    lag(status) OVER (PARTITION BY company, edital_id ORDER BY observed_at, updated_at) AS status_anterior
  FROM edital_versions
),
entradas AS (
  SELECT company, edital_id, status, observed_at AS entrou_em,
    lead(observed_at) OVER (PARTITION BY company, edital_id ORDER BY observed_at, updated_at) AS proxima_em
  FROM vistas
  WHERE status_anterior IS DISTINCT FROM status
)
SELECT company, edital_id, status,
  coalesce(fase, status) AS fase,
  coalesce(fase_ordem, 9) AS fase_ordem,
  entrou_em,
  coalesce(proxima_em, deleted_at) AS saiu_em,
  saiu_em IS NULL AS em_curso,
  (epoch_ms(coalesce(saiu_em, now())) - epoch_ms(entrou_em)) / 86400000 AS dias
FROM entradas
LEFT JOIN (SELECT company, edital_id, deleted_at FROM editais) USING (company, edital_id)
LEFT JOIN fases USING (status)
