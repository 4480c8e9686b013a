WITH execucoes AS (
  SELECT company,
    arg_max({'em': coalesce(finished_at, started_at), 'status': status, 'erro': error}, started_at) AS ultima
  FROM sync_runs GROUP BY company
),
estados AS (
  SELECT company, count(*) AS editais_ativos,
    count(*) FILTER (analysis_state = 'current') AS analises_atuais,
    count(*) FILTER (analysis_state = 'pending') AS pendentes,
    count(*) FILTER (analysis_state = 'excluded') AS excluidos
  FROM editais WHERE deleted_at IS NULL GROUP BY company
),
quarentena AS (
  SELECT company, count(*) AS em_quarentena FROM quarantine WHERE resolved_at IS NULL GROUP BY company
),
desvios AS (
  SELECT company, count(*) AS desvios,
    count(*) FILTER (last_seen_at >= agora() - INTERVAL 7 DAY) AS desvios_7_dias
  FROM schema_drift GROUP BY company
)
SELECT company, snapshot,
  published_at AS publicado_em,
  local_time(company, published_at) AS publicado_local,
  date_diff('minute', published_at, agora()) AS idade_minutos,
  ultima.em AS ultima_execucao_em,
  ultima.status AS ultima_execucao_status,
  ultima.erro AS ultima_execucao_erro,
  ultima_boa_em,
  local_time(company, ultima_boa_em) AS ultima_boa_local,
  coalesce(editais_ativos, 0) AS editais_ativos,
  coalesce(analises_atuais, 0) AS analises_atuais,
  coalesce(pendentes, 0) AS pendentes,
  coalesce(em_quarentena, 0) AS em_quarentena,
  coalesce(excluidos, 0) AS excluidos,
  coalesce(desvios, 0) AS desvios,
  coalesce(desvios_7_dias, 0) AS desvios_7_dias,
  coalesce(ultima_execucao_resultado, ultima.status) AS ultima_execucao_resultado
FROM snapshot_info
LEFT JOIN execucoes USING (company)
LEFT JOIN (SELECT company, max(terminou_em) AS ultima_boa_em FROM leituras WHERE boa GROUP BY ALL) USING (company)
LEFT JOIN estados USING (company)
LEFT JOIN quarentena USING (company)
LEFT JOIN desvios USING (company)
LEFT JOIN (
  SELECT codigo, rotulo AS ultima_execucao_resultado FROM rotulos WHERE coluna = 'sync_runs.status'
) ON codigo = ultima.status
