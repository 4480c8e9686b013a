-- One list of what other marts and tables show by kind: the kinds for which a bid team acts.
WITH primeira_leitura AS (
  SELECT company, min(finished_at) AS lida_em FROM sync_runs WHERE scan_complete AND mode IN ('full', 'incremental') GROUP BY ALL
),
versoes AS (FROM versoes_seguidas()),
vistas AS (
  -- What the first reading found is as old as the API says.
  SELECT company, edital_id, 'Novo edital' AS mudanca, NULL::VARCHAR AS de, fase AS para,
    if(first_seen_at > lida_em, first_seen_at, created_at) AS observado_em
  FROM editais_ativos LEFT JOIN primeira_leitura USING (company)
  UNION ALL
  SELECT company, edital_id, 'Saiu da lista', NULL, NULL, deleted_at FROM editais WHERE deleted_at IS NOT NULL
  UNION ALL
  SELECT company, edital_id, 'Mudou de fase', de_fase, para_fase, observado_em FROM transicoes_de_fase
  UNION ALL
  SELECT company, edital_id, if(sessao < sessao_antes, 'Sessão antecipada', 'Sessão remarcada'),
    coalesce(dia_e_hora(sessao_antes), 'sem data'), coalesce(dia_e_hora(sessao), 'sem data'), observed_at
  FROM versoes WHERE sessao IS DISTINCT FROM sessao_antes
  UNION ALL
  SELECT company, edital_id, 'Valor alterado', coalesce(em_reais(valor_antes), 'não informado'), coalesce(em_reais(valor), 'não informado'),
    observed_at
  FROM versoes WHERE valor IS DISTINCT FROM valor_antes
  UNION ALL
  SELECT company, edital_id, 'Objeto alterado', coalesce(desde_a_mudanca(texto_antes, texto), 'não informado'),
    coalesce(desde_a_mudanca(texto, texto_antes), 'não informado'), observed_at
  FROM versoes WHERE texto IS DISTINCT FROM texto_antes
  UNION ALL
  SELECT company, edital_id, 'Parecer alterado', coalesce(de_rotulo, 'sem parecer'), coalesce(para_rotulo, 'sem parecer'), observado_em
  FROM mudancas_parecer
)
SELECT company, edital_id, mudanca,
  -- Nothing is left to do in a notice that is discarded or expired: all its changes follow those of the others.
  list_position(['Sessão antecipada', 'Sessão remarcada', 'Parecer alterado', 'Objeto alterado', 'Valor alterado', 'Saiu da lista',
    'Novo edital', 'Mudou de fase'], mudanca) + if(status IN (SELECT status FROM fases WHERE NOT em_andamento), 100, 0) AS mudanca_ordem,
  de, para, observado_em, local_time(company, observado_em)::DATE AS observado_dia,
  if(outra_grafia, orgao_mostrado, orgao) AS orgao,
  if(outra_grafia, uf_mostrada, uf) AS uf,
  numero, objeto, impugnar_ate, pncp_url,
  mudanca IN ('Sessão antecipada', 'Sessão remarcada', 'Objeto alterado', 'Valor alterado')
    AND coalesce(observado_em > least(committed_at, analisado_em), false) AS retificacao,
  contado_no_numero
FROM vistas
JOIN (SELECT company, edital_id, status, orgao, uf, numero, objeto, pncp_url, committed_at FROM editais) USING (company, edital_id)
LEFT JOIN (SELECT company, edital_id, contado_no_numero FROM republicacoes) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, min(observed_at) AS analisado_em FROM analysis_versions
  WHERE verdict_recommendation IS NOT NULL GROUP BY ALL
) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, true AS outra_grafia, orgao AS orgao_mostrado, uf AS uf_mostrada FROM grafias
) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, ultimo_dia_impugnacao AS impugnar_ate
  FROM prazos_impugnacao JOIN (SELECT company, edital_id FROM editais_ativos WHERE em_andamento) USING (company, edital_id)
  WHERE dias_ate_impugnacao >= 0
) USING (company, edital_id)
ORDER BY company, observado_dia DESC, mudanca_ordem, observado_em DESC, edital_id
