-- While the session is still to come, another way to react may be left; afterwards nothing is.
SELECT company, edital_id, ordinal, orgao_cnpj, orgao, uf, numero, objeto, fase, severidade, severidade_ordem, titulo, descricao, acao,
  prazo, -dias_ate_prazo AS dias_desde_prazo, certeza_prazo, data_sessao_dia, situacao_sessao, pncp_url, contado_no_numero
FROM alertas_juridicos
WHERE em_andamento AND NOT oportunidade AND severity IN ('critical', 'high') AND dias_ate_prazo < 0 AND situacao_sessao <> 'passada'
ORDER BY company, prazo DESC, severidade_ordem, edital_id, ordinal
