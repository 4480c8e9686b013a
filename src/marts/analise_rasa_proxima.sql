-- Not from edital_resumo, which sums all items, too.
SELECT company, edital_id, data_sessao_local, dias_ate_sessao, coalesce(n.rotulo, analysis_level) AS nivel_analise,
  coalesce(v.rotulo, verdict_recommendation) AS recomendacao, orgao_cnpj, orgao, uf, numero, modalidade,
  objeto, fase, valor_estimado_informado, participation_confirmed, pncp_url, contado_no_numero
FROM editais_ativos
LEFT JOIN (SELECT company, edital_id, verdict_recommendation, analysis_level FROM analyses) USING (company, edital_id)
LEFT JOIN rotulos v ON v.coluna = 'analyses.verdict_recommendation' AND v.codigo = verdict_recommendation
LEFT JOIN rotulos n ON n.coluna = 'analyses.analysis_level' AND n.codigo = analysis_level
WHERE em_andamento AND situacao_sessao = 'futura' AND dias_ate_sessao < 5 AND analysis_level IS DISTINCT FROM 'deep'
ORDER BY company, data_sessao_local, edital_id
