-- Of texts with the same key, the most frequent one is shown; of equally frequent ones, the first in the alphabet.
WITH contados AS (
  SELECT company, coluna, texto, count(*) FILTER (ativo) AS editais
  FROM (
    SELECT company, deleted_at IS NULL AS ativo,
      unnest(['orgao', 'modalidade', 'uf', 'discard_reason']) AS coluna,
      unnest([orgao, modalidade, uf, discard_reason]) AS texto
    FROM editais
  )
  WHERE texto IS NOT NULL
  GROUP BY ALL
),
lidos AS MATERIALIZED (
  SELECT *,
    CASE coluna WHEN 'uf' THEN upper(texto_limpo(texto)) ELSE texto_limpo(texto) END AS limpo,
    CASE coluna WHEN 'modalidade' THEN chave_modalidade(texto) ELSE chave(texto) END AS chave
  FROM contados
),
escolhidas AS (
  SELECT company, coluna, chave, arg_min(limpo, (-editais, limpo)) AS grafia
  FROM (SELECT company, coluna, chave, limpo, sum(editais)::BIGINT AS editais FROM lidos GROUP BY ALL)
  GROUP BY company, coluna, chave
),
-- A text in which nothing is visible has no key, and so no spelling.
outras AS MATERIALIZED (
  SELECT company, coluna, texto, grafia
  FROM lidos LEFT JOIN escolhidas USING (company, coluna, chave)
  WHERE texto IS DISTINCT FROM grafia
)
SELECT e.company, e.edital_id,
  if(o.texto IS NULL, e.orgao, o.grafia) AS orgao,
  if(m.texto IS NULL, e.modalidade, m.grafia) AS modalidade,
  if(u.texto IS NULL, e.uf, u.grafia) AS uf,
  if(d.texto IS NULL, e.discard_reason, d.grafia) AS discard_reason
FROM editais e
LEFT JOIN outras o ON o.coluna = 'orgao' AND o.company = e.company AND o.texto = e.orgao
LEFT JOIN outras m ON m.coluna = 'modalidade' AND m.company = e.company AND m.texto = e.modalidade
LEFT JOIN outras u ON u.coluna = 'uf' AND u.company = e.company AND u.texto = e.uf
LEFT JOIN outras d ON d.coluna = 'discard_reason' AND d.company = e.company AND d.texto = e.discard_reason
WHERE coalesce(o.texto, m.texto, u.texto, d.texto) IS NOT NULL
ORDER BY ALL
