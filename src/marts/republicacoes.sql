-- Texts are long, so only those of notices with the same value and CNPJ are compared.
WITH com_valor AS MATERIALIZED (
  SELECT company, edital_id, numero, coalesce(orgao_cnpj, '') AS cnpj, orgao, objeto, valor_estimado::DECIMAL(20, 2) AS valor,
    coalesce(em_andamento, true) AS em_andamento, epoch_ms(created_at) AS desde
  FROM editais LEFT JOIN fases USING (status)
  WHERE deleted_at IS NULL AND valor_estimado <> 0 AND NOT valor_suspeito(valor_estimado)
),
comparados AS (
  SELECT company, edital_id, numero, valor, em_andamento, desde, if(cnpj = '', chave(orgao), cnpj) AS comprador,
    -- Portals put their own name first: "[LICITANET] - ".
    regexp_replace(chave(objeto), '^\[[^\]]*\] ?-? ?', '') AS objeto
  FROM com_valor SEMI JOIN (SELECT company, valor, cnpj FROM com_valor GROUP BY ALL HAVING count(*) > 1) USING (company, valor, cnpj)
),
compras AS (
  SELECT company, min(edital_id) AS compra,
    list({'edital_id': edital_id, 'numero': numero, 'em_andamento': em_andamento, 'desde': desde}) AS editais
  FROM comparados
  GROUP BY company, comprador, objeto, valor
  -- Not WHERE, which would be applied to all notices. Without a buyer or an object, nothing is compared.
  HAVING count(*) > 1 AND bool_and(comprador <> '' AND objeto <> '')
),
publicados AS (
  SELECT company, compra, e.*, (e.desde - lag(e.desde) OVER (PARTITION BY company, compra ORDER BY e.desde, e.edital_id)) / 86400000 > 180 AS recomeca
  FROM (SELECT company, compra, unnest(editais) AS e FROM compras)
),
contados AS (
  SELECT *, count(*) FILTER (recomeca) OVER (PARTITION BY company, compra ORDER BY desde, edital_id) AS vez FROM publicados
),
grupos AS (
  SELECT company, list(edital_id) AS editais, arg_max({'id': edital_id, 'numero': numero}, (em_andamento, desde, edital_id)) AS contado
  FROM contados GROUP BY company, compra, vez
)
SELECT company, edital_id, contado.id AS contado_no_edital, coalesce(contado.numero, 'sem número') AS contado_no_numero
FROM (SELECT company, unnest(editais) AS edital_id, contado FROM grupos)
WHERE edital_id <> contado.id
ORDER BY company, edital_id
