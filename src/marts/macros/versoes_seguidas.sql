-- The versions of a notice, each beside the one before: local session, value and object. Not from mudancas, which compares all fields, at
-- five times the cost.
TABLE
SELECT company, edital_id, observed_at, local_time(company, data_sessao) AS sessao, valor_estimado AS valor, texto_limpo(objeto) AS texto,
  local_time(company, lag(data_sessao) OVER historico) AS sessao_antes, lag(valor_estimado) OVER historico AS valor_antes,
  texto_limpo(lag(objeto) OVER historico) AS texto_antes
FROM edital_versions
JOIN (SELECT company, edital_id FROM edital_versions GROUP BY ALL HAVING count(*) > 1) USING (company, edital_id)
WINDOW historico AS (PARTITION BY company, edital_id ORDER BY observed_at, updated_at)
QUALIFY row_number() OVER historico > 1
