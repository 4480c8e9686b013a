-- Compares every list field, as text. Left out are updated_at, which moves with every change, and what derives from
-- pncp_id. The names of other columns begin with _, so that '^[^_]' selects the fields. Not by *COLUMNS, which DuckDB
-- before 1.2 cannot read.
WITH versoes AS (
  SELECT company AS _company, edital_id AS _edital_id, observed_at AS _observed_at, updated_at AS _updated_at,
    * EXCLUDE (company, edital_id, observed_at, updated_at, run_id, gone_since, orgao_cnpj, pncp_ano, pncp_sequencial)
  FROM edital_versions
  JOIN (SELECT company, edital_id FROM edital_versions GROUP BY ALL HAVING count(*) > 1) USING (company, edital_id)
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
campos AS (
  FROM textos UNPIVOT INCLUDE NULLS (para FOR campo IN (COLUMNS('^[^_]')))
),
vistas AS (
  SELECT _company AS company, _edital_id AS edital_id, _observed_at AS observed_at, campo, para,
    lag(para) OVER (historico) AS de, row_number() OVER (historico) AS numero
  FROM campos
  WINDOW historico AS (PARTITION BY _company, _edital_id, campo ORDER BY _observed_at, _updated_at)
),
naturezas AS (
  FROM (VALUES ('data_sessao', 'hora'), ('created_at', 'hora'), ('committed_at', 'hora'), ('valor_estimado', 'valor')) AS n(campo, natureza)
),
-- What codes mean, by field.
significados AS (
  SELECT 'status' AS campo, status AS codigo, fase AS significado FROM fases
  UNION ALL
  FROM (VALUES ('participation_confirmed', 'true', 'sim'), ('participation_confirmed', 'false', 'não'))
)
SELECT company, edital_id, if(outra_grafia, orgao_mostrado, orgao) AS orgao, objeto, v.campo, de, para,
  observed_at AS observado_em,
  local_time(company, observed_at)::DATE AS observado_dia,
  coalesce(rotulo, v.campo) AS campo_rotulo,
  coalesce(s_de.significado, CASE natureza WHEN 'hora' THEN dia_e_hora(TRY_CAST(de AS TIMESTAMP)) WHEN 'valor' THEN em_reais(TRY_CAST(de AS DOUBLE)) ELSE de END)
    AS de_rotulo,
  coalesce(s_para.significado, CASE natureza WHEN 'hora' THEN dia_e_hora(TRY_CAST(para AS TIMESTAMP)) WHEN 'valor' THEN em_reais(TRY_CAST(para AS DOUBLE)) ELSE para END)
    AS para_rotulo
FROM vistas v
JOIN (SELECT company, edital_id, orgao, objeto FROM editais) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, true AS outra_grafia, orgao AS orgao_mostrado FROM grafias
) USING (company, edital_id)
LEFT JOIN (SELECT codigo, rotulo FROM rotulos WHERE coluna = 'mudancas.campo') ON codigo = v.campo
LEFT JOIN naturezas USING (campo)
LEFT JOIN significados s_de ON s_de.campo = v.campo AND s_de.codigo = de
LEFT JOIN significados s_para ON s_para.campo = v.campo AND s_para.codigo = para
WHERE numero > 1 AND de IS DISTINCT FROM para
