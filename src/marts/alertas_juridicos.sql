WITH severidades AS (
  SELECT codigo AS severity, rotulo AS severidade, ordem AS severidade_ordem FROM rotulos
  WHERE coluna = 'alerts.severity'
),
acoes AS (
  SELECT codigo AS action_type, rotulo AS acao FROM rotulos WHERE coluna = 'alerts.action_type'
),
tipos AS (
  SELECT codigo AS type, rotulo AS tipo FROM rotulos WHERE coluna = 'alerts.type'
)
SELECT company, edital_id, ordinal, orgao_cnpj, orgao, uf, numero, objeto, fase, em_andamento,
  type, type IS NOT DISTINCT FROM 'opportunity' AS oportunidade, severity,
  coalesce(severidade, severity) AS severidade,
  coalesce(severidade_ordem, 9) AS severidade_ordem,
  title AS titulo, description AS descricao, action_type,
  coalesce(acao, action_type) AS acao,
  legal_thesis, data_sessao_dia,
  -- Deadlines for appeals depend on events at the session, which the API does not report.
  CASE action_type WHEN 'impugnacao' THEN ultimo_dia_impugnacao WHEN 'esclarecimento' THEN ultimo_dia_esclarecimento END AS prazo,
  dias_ate_prazo(prazo, situacao_sessao = 'passada', local_time(company, agora())::DATE) AS dias_ate_prazo,
  CASE action_type WHEN 'impugnacao' THEN regra_impugnacao WHEN 'esclarecimento' THEN regra_esclarecimento END AS regra_prazo,
  situacao_sessao,
  coalesce(tipo, type) AS tipo,
  CASE action_type WHEN 'impugnacao' THEN certeza_impugnacao WHEN 'esclarecimento' THEN certeza_esclarecimento END AS certeza_prazo,
  pncp_url, contado_no_numero
FROM alerts
JOIN editais_ativos USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, ultimo_dia_impugnacao, regra_impugnacao, certeza_impugnacao,
    ultimo_dia_esclarecimento, regra_esclarecimento, certeza_esclarecimento
  FROM prazos_calculados
) USING (company, edital_id)
LEFT JOIN severidades USING (severity)
LEFT JOIN acoes USING (action_type)
LEFT JOIN tipos USING (type)
