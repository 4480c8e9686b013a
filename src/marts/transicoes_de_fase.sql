WITH passagens AS (
  SELECT company, edital_id, status, fase, entrou_em,
    lag(status) OVER anteriores AS de_status,
    lag(fase) OVER anteriores AS de_fase,
    lag(dias) OVER anteriores AS dias_na_fase,
    lag(censurada) OVER anteriores AS censurada
  FROM passagens_por_fase
  -- A phase that was left as soon as it was entered comes first.
  WINDOW anteriores AS (PARTITION BY company, edital_id ORDER BY entrou_em, saiu_em NULLS LAST)
)
SELECT company, edital_id, if(outra_grafia, orgao_mostrado, orgao) AS orgao, objeto,
  de_status, p.status AS para_status, de_fase, p.fase AS para_fase,
  entrou_em AS observado_em,
  local_time(company, entrou_em)::DATE AS observado_dia,
  dias_na_fase, censurada
FROM passagens p
JOIN (SELECT company, edital_id, orgao, objeto FROM editais) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, true AS outra_grafia, orgao AS orgao_mostrado FROM grafias
) USING (company, edital_id)
-- A notice that was gone and returned to the same phase did not move.
WHERE de_status <> p.status
