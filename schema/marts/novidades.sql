-- One list of what other marts and tables show by kind: the order of the kinds is that of the report.
WITH vistas AS (
  SELECT company, edital_id, 'Novo edital' AS mudanca, NULL::VARCHAR AS de, fase AS para, created_at AS observado_em
  FROM editais_ativos
  UNION ALL
  SELECT company, edital_id, 'Saiu da API', NULL, NULL, deleted_at FROM editais WHERE deleted_at IS NOT NULL
  UNION ALL
  SELECT company, edital_id, 'Mudou de fase', de_fase, para_fase, observado_em FROM transicoes_de_fase
  UNION ALL
  SELECT company, edital_id, 'Sessão remarcada', strftime(TRY_CAST(de AS TIMESTAMP), '%d/%m/%Y %H:%M'),
    strftime(TRY_CAST(para AS TIMESTAMP), '%d/%m/%Y %H:%M'), observado_em
  FROM mudancas WHERE campo = 'data_sessao'
  UNION ALL
  SELECT company, edital_id, 'Valor alterado', 'R$ ' || translate(format('{:,.2f}', TRY_CAST(de AS DOUBLE)), ',.', '.,'),
    'R$ ' || translate(format('{:,.2f}', TRY_CAST(para AS DOUBLE)), ',.', '.,'), observado_em
  FROM mudancas WHERE campo = 'valor_estimado'
  UNION ALL
  SELECT company, edital_id, 'Parecer alterado', de_rotulo, para_rotulo, observado_em FROM mudancas_parecer
)
SELECT company, edital_id, mudanca, de, para, observado_em,
  local_time(company, observado_em)::DATE AS observado_dia,
  if(outra_grafia, orgao_mostrado, orgao) AS orgao,
  if(outra_grafia, uf_mostrada, uf) AS uf,
  numero, objeto, ultimo_dia_impugnacao, pncp_url
FROM vistas
JOIN (SELECT company, edital_id, orgao, uf, numero, objeto, pncp_url FROM editais) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, true AS outra_grafia, orgao AS orgao_mostrado, uf AS uf_mostrada FROM grafias
) USING (company, edital_id)
LEFT JOIN (SELECT company, edital_id, ultimo_dia_impugnacao FROM prazos_impugnacao) USING (company, edital_id)
ORDER BY company, observado_em DESC, edital_id, mudanca
