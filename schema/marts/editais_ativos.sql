WITH locais AS (
  SELECT *, local_time(company, now())::DATE AS hoje,
    local_time(company, data_sessao) AS data_sessao_local,
    local_time(company, created_at) AS criado_local,
    local_time(company, updated_at) AS atualizado_local,
    local_time(company, committed_at) AS confirmado_local,
    valor_suspeito(valor_estimado) AS valor_suspeito,
    nullif(upper(trim(uf, E' \t\r\n' || chr(160))), '') AS uf_limpa
  FROM editais
  WHERE deleted_at IS NULL
)
SELECT company, edital_id, pncp_id, orgao_cnpj, orgao, objeto, numero, modalidade, uf_limpa AS uf, status,
  coalesce(fase, status) AS fase,
  coalesce(fase_ordem, 9) AS fase_ordem,
  coalesce(em_andamento, true) AS em_andamento,
  participation_confirmed, discard_reason, valor_estimado,
  CASE WHEN valor_estimado <> 0 AND NOT valor_suspeito THEN valor_estimado END AS valor_estimado_informado,
  valor_suspeito, data_sessao, data_sessao_local,
  data_sessao_local::DATE AS data_sessao_dia,
  date_diff('day', hoje, data_sessao_local::DATE) AS dias_ate_sessao,
  criado_local, atualizado_local, confirmado_local, pncp_url, analysis_state,
  created_at, updated_at, first_seen_at, changed_at,
  CASE
    WHEN data_sessao_local IS NULL THEN 'sem data'
    WHEN data_sessao_local::DATE >= hoje THEN 'futura'
    ELSE 'passada'
  END AS situacao_sessao
FROM locais
LEFT JOIN fases USING (status)
