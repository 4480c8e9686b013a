WITH locais AS (
  SELECT *, local_time(company, agora()) AS agora,
    local_time(company, data_sessao) AS data_sessao_local,
    local_time(company, created_at) AS criado_local,
    local_time(company, updated_at) AS atualizado_local,
    local_time(company, committed_at) AS confirmado_local,
    valor_suspeito(valor_estimado) AS valor_suspeito
  FROM editais
  WHERE deleted_at IS NULL
)
SELECT company, edital_id, pncp_id, orgao_cnpj,
  if(outra_grafia, orgao_mostrado, orgao) AS orgao,
  objeto, numero,
  if(outra_grafia, modalidade_mostrada, modalidade) AS modalidade,
  if(outra_grafia, uf_mostrada, uf) AS uf,
  status,
  coalesce(fase, status) AS fase,
  coalesce(fase_ordem, 9) AS fase_ordem,
  coalesce(em_andamento, true) AS em_andamento,
  participation_confirmed,
  if(outra_grafia, discard_reason_mostrado, discard_reason) AS discard_reason,
  valor_estimado,
  CASE WHEN valor_estimado <> 0 AND NOT valor_suspeito THEN valor_estimado END AS valor_estimado_informado,
  valor_suspeito, data_sessao, data_sessao_local,
  data_sessao_local::DATE AS data_sessao_dia,
  date_diff('day', agora::DATE, data_sessao_local::DATE) AS dias_ate_sessao,
  criado_local, atualizado_local, confirmado_local, pncp_url, analysis_state,
  created_at, updated_at, first_seen_at, changed_at,
  CASE
    WHEN data_sessao_local IS NULL THEN 'sem data'
    WHEN sessao_por_vir(data_sessao_local, agora) THEN 'futura'
    ELSE 'passada'
  END AS situacao_sessao,
  contado_no_edital, contado_no_numero,
  CASE WHEN contado_no_edital IS NULL THEN valor_estimado_informado END AS valor_somado
FROM locais
LEFT JOIN fases USING (status)
-- Few notices have a text that is shown in another spelling.
LEFT JOIN (
  SELECT company, edital_id, true AS outra_grafia, orgao AS orgao_mostrado, modalidade AS modalidade_mostrada,
    uf AS uf_mostrada, discard_reason AS discard_reason_mostrado
  FROM grafias
) USING (company, edital_id)
LEFT JOIN (SELECT company, edital_id, contado_no_edital, contado_no_numero FROM republicacoes) USING (company, edital_id)
