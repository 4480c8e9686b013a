-- updated_at itself is left out: it moves with every change.
WITH vistas AS (
  SELECT company, edital_id, observed_at, v AS depois,
    lag(v) OVER (PARTITION BY company, edital_id ORDER BY observed_at, updated_at) AS antes
  FROM edital_versions v
),
campos AS (
  SELECT company, edital_id, observed_at, unnest([
    {'campo': 'pncp_id', 'de': antes.pncp_id, 'para': depois.pncp_id},
    {'campo': 'orgao', 'de': antes.orgao, 'para': depois.orgao},
    {'campo': 'objeto', 'de': antes.objeto, 'para': depois.objeto},
    {'campo': 'numero', 'de': antes.numero, 'para': depois.numero},
    {'campo': 'modalidade', 'de': antes.modalidade, 'para': depois.modalidade},
    {'campo': 'uf', 'de': antes.uf, 'para': depois.uf},
    {'campo': 'valor_estimado', 'de': antes.valor_estimado::VARCHAR, 'para': depois.valor_estimado::VARCHAR},
    {'campo': 'data_sessao', 'de': strftime(local_time(company, antes.data_sessao), '%Y-%m-%d %H:%M:%S'), 'para': strftime(local_time(company, depois.data_sessao), '%Y-%m-%d %H:%M:%S')},
    {'campo': 'pncp_url', 'de': antes.pncp_url, 'para': depois.pncp_url},
    {'campo': 'status', 'de': antes.status, 'para': depois.status},
    {'campo': 'participation_confirmed', 'de': antes.participation_confirmed::VARCHAR, 'para': depois.participation_confirmed::VARCHAR},
    {'campo': 'discard_reason', 'de': antes.discard_reason, 'para': depois.discard_reason},
    {'campo': 'committed_at', 'de': strftime(local_time(company, antes.committed_at), '%Y-%m-%d %H:%M:%S'), 'para': strftime(local_time(company, depois.committed_at), '%Y-%m-%d %H:%M:%S')},
    {'campo': 'created_at', 'de': strftime(local_time(company, antes.created_at), '%Y-%m-%d %H:%M:%S'), 'para': strftime(local_time(company, depois.created_at), '%Y-%m-%d %H:%M:%S')}
  ], recursive := true)
  FROM vistas
  WHERE antes IS NOT NULL
)
SELECT company, edital_id, orgao, objeto, campo, de, para,
  observed_at AS observado_em,
  local_time(company, observed_at)::DATE AS observado_dia
FROM campos
JOIN (SELECT company, edital_id, orgao, objeto FROM editais) USING (company, edital_id)
WHERE de IS DISTINCT FROM para
