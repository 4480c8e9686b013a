SELECT company, edital_id, ordinal, orgao_cnpj, orgao, uf, numero, objeto, fase, em_andamento,
  data_sessao_dia, dias_ate_sessao,
  category AS categoria, title AS titulo, required AS exigido, "current" AS situacao_atual, r.status,
  CASE r.status WHEN 'red' THEN 'vermelho' ELSE 'amarelo' END AS cor,
  ai_notes AS notas, situacao_sessao,
  coalesce(categoria_rotulo, category) AS categoria_rotulo, pncp_url, contado_no_numero
FROM requirements r
JOIN editais_ativos e USING (company, edital_id)
LEFT JOIN (
  SELECT codigo AS category, rotulo AS categoria_rotulo FROM rotulos WHERE coluna = 'requirements.category'
) USING (category)
WHERE r.status IN ('red', 'yellow')
  -- Redundant, but lets DuckDB skip the texts of other rows: it can do that for a single comparison, not for a list.
  AND r.status >= 'red'
