WITH severidades AS (
  FROM (VALUES ('critical', 'crítica', 1), ('high', 'alta', 2), ('medium', 'média', 3), ('low', 'baixa', 4))
    AS s(severity, severidade, severidade_ordem)
),
acoes AS (
  FROM (VALUES ('impugnacao', 'Impugnação', true), ('esclarecimento', 'Esclarecimento', true),
    ('recurso', 'Recurso', false), ('contrarrazao', 'Contrarrazão', false), ('none', 'Nenhuma', false))
    AS a(action_type, acao, antes_da_sessao)
)
SELECT company, edital_id, ordinal, orgao_cnpj, orgao, uf, numero, objeto, fase, em_andamento,
  type, type IS NOT DISTINCT FROM 'opportunity' AS oportunidade, severity,
  coalesce(severidade, severity) AS severidade,
  coalesce(severidade_ordem, 9) AS severidade_ordem,
  title AS titulo, description AS descricao, action_type,
  coalesce(acao, action_type) AS acao,
  legal_thesis, data_sessao_dia,
  -- Deadlines for appeals depend on events at the session, which the API does not report.
  CASE WHEN antes_da_sessao THEN ultimo_dia_impugnacao END AS prazo,
  CASE WHEN antes_da_sessao THEN dias_ate_impugnacao END AS dias_ate_prazo,
  CASE WHEN antes_da_sessao THEN regra_impugnacao END AS regra_prazo,
  situacao_sessao
FROM alerts
JOIN editais_ativos USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, ultimo_dia_impugnacao, dias_ate_impugnacao, regra_impugnacao FROM prazos_impugnacao
) USING (company, edital_id)
LEFT JOIN severidades USING (severity)
LEFT JOIN acoes USING (action_type)
