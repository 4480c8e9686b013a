-- The national holidays by law, and Good Friday. Carnival and Corpus Christi are optional days off
-- (ponto facultativo), which count as business days. Easter by the Meeus/Jones/Butcher algorithm.
WITH anos AS (SELECT unnest(range(2010, 2061)) AS ano),
pascoa_1 AS (
  SELECT ano, ano % 19 AS a, ano // 100 AS b, ano % 100 AS c FROM anos
),
pascoa_2 AS (
  SELECT ano, a, c, (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30 AS h, b FROM pascoa_1
),
pascoa_3 AS (
  SELECT ano, h, (32 + 2 * (b % 4) + 2 * (c // 4) - h - c % 4) % 7 AS l, a FROM pascoa_2
),
pascoa_4 AS (
  SELECT ano, h + l - 7 * ((a + 11 * h + 22 * l) // 451) + 114 AS n FROM pascoa_3
),
pascoa AS (
  SELECT make_date(ano, n // 31, n % 31 + 1) AS dia FROM pascoa_4
),
feriados AS (
  SELECT make_date(ano, mes, dia) AS dia, feriado
  FROM anos CROSS JOIN (VALUES
    (1, 1, 'Confraternização Universal', 0),
    (4, 21, 'Tiradentes', 0),
    (5, 1, 'Dia do Trabalho', 0),
    (9, 7, 'Independência do Brasil', 0),
    (10, 12, 'Nossa Senhora Aparecida', 0),
    (11, 2, 'Finados', 0),
    (11, 15, 'Proclamação da República', 0),
    -- Lei 14.759/2023.
    (11, 20, 'Dia Nacional de Zumbi e da Consciência Negra', 2024),
    (12, 25, 'Natal', 0)
  ) AS f(mes, dia, feriado, desde)
  WHERE ano >= desde
  UNION ALL
  SELECT dia - 2, 'Paixão de Cristo' FROM pascoa
),
dias AS (
  SELECT DATE '2010-01-01' + n::INTEGER AS dia FROM range(DATE '2061-01-01' - DATE '2010-01-01') r(n)
),
marcados AS (
  SELECT dia, any_value(feriado) AS feriado, isodow(dia) < 6 AND any_value(feriado) IS NULL AS dia_util
  FROM dias LEFT JOIN feriados USING (dia)
  GROUP BY dia
),
contados AS (
  SELECT *, (sum(dia_util::INTEGER) OVER (ORDER BY dia) - dia_util::INTEGER)::BIGINT AS dias_uteis_antes
  FROM marcados
)
-- Lei 14.133/2021, art. 164: up to three business days before the opening.
SELECT d.dia, d.feriado, d.dia_util, limite.dia AS limite_impugnacao, d.dias_uteis_antes
FROM contados d
LEFT JOIN contados limite ON limite.dia_util AND limite.dias_uteis_antes = d.dias_uteis_antes - 3
