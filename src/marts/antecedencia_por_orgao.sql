-- A CNPJ identifies a buyer. A notice that the company began to follow after its session says nothing of the time it had.
WITH medidos AS (
  SELECT company, coalesce(orgao_cnpj, orgao, 'não informado') AS chave, orgao_cnpj, orgao, uf, updated_at, edital_id,
    date_diff('day', criado_local::DATE, data_sessao_dia) AS dias
  FROM editais_ativos
  WHERE data_sessao_dia >= criado_local::DATE
)
SELECT company,
  any_value(orgao_cnpj) AS orgao_cnpj,
  arg_max(orgao, (updated_at, edital_id)) FILTER (orgao IS NOT NULL) AS orgao,
  arg_max(uf, (updated_at, edital_id)) FILTER (uf IS NOT NULL) AS uf,
  count(*) AS editais,
  count(*) FILTER (dias < 8) AS editais_curtos,
  min(dias) AS dias_minimo,
  median(dias) AS dias_mediana
FROM medidos
GROUP BY company, chave
ORDER BY company, dias_mediana, editais DESC, chave
