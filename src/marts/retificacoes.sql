SELECT company, edital_id, mudanca, mudanca_ordem, de, para, observado_em, observado_dia, orgao, uf, numero, objeto, impugnar_ate,
  local_time(company, data_sessao) AS data_sessao_local, participation_confirmed, pncp_url, contado_no_numero
FROM novidades
JOIN (SELECT company, edital_id, data_sessao, participation_confirmed FROM editais) USING (company, edital_id)
WHERE retificacao
ORDER BY company, observado_dia DESC, mudanca_ordem, observado_em DESC, edital_id
