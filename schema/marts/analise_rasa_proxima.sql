SELECT company, edital_id, data_sessao_local, dias_ate_sessao, nivel_analise, recomendacao, orgao_cnpj, orgao, uf, numero, modalidade,
  objeto, fase, valor_estimado_informado, participation_confirmed, pncp_url
FROM edital_resumo
WHERE em_andamento AND situacao_sessao = 'futura' AND dias_ate_sessao < 5 AND analysis_level IS DISTINCT FROM 'deep'
ORDER BY company, data_sessao_local, edital_id
