-- Compares every list field, as text. updated_at is left out: it moves with every change; and so is what derives from
-- pncp_id. The names of other columns begin with _, so that '^[^_]' selects the fields.
WITH versoes AS (
  SELECT company AS _company, edital_id AS _edital_id, observed_at AS _observed_at, updated_at AS _updated_at,
    * EXCLUDE (company, edital_id, observed_at, updated_at, run_id, gone_since, orgao_cnpj, pncp_ano, pncp_sequencial)
  FROM edital_versions
),
textos AS (
  SELECT COLUMNS('^_'),
    CASE typeof(COLUMNS('^[^_]'))
      WHEN 'TIMESTAMP WITH TIME ZONE'
      THEN strftime(local_time(_company, TRY_CAST(COLUMNS('^[^_]') AS TIMESTAMPTZ)), '%Y-%m-%d %H:%M:%S')
      ELSE COLUMNS('^[^_]')::VARCHAR
    END
  FROM versoes
),
nomes AS (
  SELECT list_value(*COLUMNS(*)) AS nomes
  FROM (SELECT alias(COLUMNS('^[^_]')) FROM versoes LIMIT 1)
),
vistas AS (
  SELECT _company AS company, _edital_id AS edital_id, _observed_at AS observed_at,
    list_value(*COLUMNS('^[^_]')) AS depois,
    lag(depois) OVER (PARTITION BY _company, _edital_id ORDER BY _observed_at, _updated_at) AS antes
  FROM textos
),
campos AS (
  SELECT company, edital_id, observed_at, unnest(nomes) AS campo, unnest(antes) AS de, unnest(depois) AS para
  FROM vistas, nomes
  WHERE antes IS NOT NULL
)
SELECT company, edital_id, orgao, objeto, campo, de, para,
  observed_at AS observado_em,
  local_time(company, observed_at)::DATE AS observado_dia
FROM campos
JOIN (SELECT company, edital_id, orgao, objeto FROM editais) USING (company, edital_id)
WHERE de IS DISTINCT FROM para
