WITH nacionais AS (
  SELECT dia,
    any_value(feriado) FILTER (tipo = 'nacional') AS feriado,
    any_value(feriado) FILTER (tipo = 'facultativo') AS facultativo
  FROM feriados
  WHERE uf IS NULL
  GROUP BY dia
),
dias AS (
  SELECT DATE '2010-01-01' + n::INTEGER AS dia FROM range(DATE '2061-01-01' - DATE '2010-01-01') r(n)
),
marcados AS (
  SELECT dia, feriado, facultativo, isodow(dia) < 6 AND feriado IS NULL AS dia_util
  FROM dias LEFT JOIN nacionais USING (dia)
),
contados AS (
  SELECT *, (sum(dia_util::INTEGER) OVER (ORDER BY dia) - dia_util::INTEGER)::BIGINT AS dias_uteis_antes,
    dia_util AND facultativo IS NULL AS certo,
    sum(certo::INTEGER) OVER (ORDER BY dia) - certo::INTEGER AS certos_antes
  FROM marcados
)
-- Lei 14.133/2021, art. 164: up to three business days before the opening; without the days on which offices may be closed.
SELECT d.dia, d.feriado, d.dia_util, limite.dia AS limite_impugnacao, d.dias_uteis_antes, d.facultativo
FROM contados d
LEFT JOIN contados limite ON limite.certo AND limite.certos_antes = d.certos_antes - 3
