-- What the notice states comes first: a date, else a number of days or hours before the session. Otherwise the law that
-- the notice names applies, as its law or in that text, else Lei 14.133/2021.
WITH textos AS (
  SELECT prazo, lei_nomeada,
    -- "5 d.u." are business days.
    regexp_replace(
      regexp_replace(lower(strip_accents(prazo)), '[\s\x{a0}]+', ' ', 'g'), '([0-9)]) ?d\.? ?u\b\.?', '\1 dias uteis', 'g'
    ) AS texto,
    regexp_replace(lower(strip_accents(lei_nomeada)), '[^0-9a-z]', '', 'g') AS lei
  FROM (
    -- Many notices have the same texts, and some have no analysis: each text is read once.
    SELECT overview_prazo_impugnacao AS prazo, overview_lei_aplicavel AS lei_nomeada FROM analyses
    UNION
    SELECT NULL, NULL
  )
),
partes AS (
  SELECT *,
    -- "3 dias úteis", "03 (três) dias", "três dias corridos", "3º dia útil".
    regexp_extract(texto,
      '(?:^|[^0-9a-z/.,:])([0-9]{1,3}|um|dois|tres|quatro|cinco|seis|sete|oito|nove|dez|quinze|primeiro|segundo|terceiro|quarto|quinto) ?[oa°ºª]? ?(?:\([^)]*\) ?)?dias? ?\(?(ute?is|util|corridos?|consecutivos?)?',
      ['numero', 'tipo']) AS dias,
    -- Other hours are times of day.
    TRY_CAST(regexp_extract(texto,
      '(?:^|[^0-9a-z/.,:])([0-9]{1,3}) ?(?:\([^)]*\) ?)?(?:h|hs|horas) (?:antes|anterior|de antecedencia|que antece|previas)', 1
    ) AS INTEGER) AS horas,
    -- Days after the publication, whose date is unknown.
    regexp_matches(texto, '\b(apos|depois|a contar|contad[oa]s?|a partir)\b')
      AND NOT regexp_matches(texto, 'antes|anterior|antece|preced|previ') AS depois_da_publicacao,
    -- Not list_concat, which takes only two lists in DuckDB 1.1.
    flatten([
      list_transform(regexp_extract_all(texto, '\b([0-9]{1,2}[/.-][0-9]{1,2}[/.-][0-9]{4})\b', 1),
        lambda d: TRY_CAST(try_strptime(regexp_replace(d, '[.-]', '/', 'g'), '%d/%m/%Y') AS DATE)),
      list_transform(regexp_extract_all(texto, '\b([0-9]{1,2}/[0-9]{1,2}/[0-9]{2})\b', 1),
        lambda d: TRY_CAST(try_strptime(d, '%d/%m/%y') AS DATE)),
      list_transform(regexp_extract_all(texto, '\b([0-9]{4}-[0-9]{2}-[0-9]{2})', 1), lambda d: TRY_CAST(d AS DATE)),
      list_transform(
        regexp_extract_all(texto,
          '\b([0-9]{1,2})[o°º]? de (?:janeiro|fevereiro|marco|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro)(?: de)? [0-9]{4}', 0),
        lambda d: TRY_CAST(try_strptime(
          concat_ws('/', regexp_extract(d, '^[0-9]+'),
            list_position(['jan', 'fev', 'mar', 'abr', 'mai', 'jun', 'jul', 'ago', 'set', 'out', 'nov', 'dez'],
              regexp_extract(d, ' de ([a-z]{3})', 1)),
            right(d, 4)), '%d/%m/%Y') AS DATE))
    ]) AS datas,
    if(
      coalesce(regexp_matches(lei, '13303|estatais|14133|10024|10520|8666'), false), lei,
      replace(regexp_extract(texto, '\b(?:13\.?303|14\.?133|10\.?024|10\.?520|8\.?666)\b'), '.', '')
    ) AS norma,
    CASE
      WHEN contains(norma, '13303') OR contains(norma, 'estatais') THEN {'nome': 'Lei 13.303/2016, art. 87', 'dias': 5}
      WHEN contains(norma, '14133') THEN {'nome': 'Lei 14.133/2021, art. 164', 'dias': 3}
      WHEN contains(norma, '10024') OR contains(norma, '10520') THEN {'nome': 'Decreto 10.024/2019, art. 24', 'dias': 3}
      -- Its paragraph 2, for bidders; other citizens have five days.
      WHEN contains(norma, '8666') THEN {'nome': 'Lei 8.666/1993, art. 41', 'dias': 2}
      ELSE {'nome': 'Lei 14.133/2021, art. 164 (presumida)', 'dias': 3}
    END AS da_lei
  FROM textos
),
numeros AS (
  SELECT *,
    coalesce(
      TRY_CAST(dias.numero AS INTEGER),
      -- No MAP, whose values are lists in DuckDB 1.1.
      CASE dias.numero
        WHEN 'um' THEN 1 WHEN 'dois' THEN 2 WHEN 'tres' THEN 3 WHEN 'quatro' THEN 4 WHEN 'cinco' THEN 5
        WHEN 'seis' THEN 6 WHEN 'sete' THEN 7 WHEN 'oito' THEN 8 WHEN 'nove' THEN 9 WHEN 'dez' THEN 10 WHEN 'quinze' THEN 15
        WHEN 'primeiro' THEN 1 WHEN 'segundo' THEN 2 WHEN 'terceiro' THEN 3 WHEN 'quarto' THEN 4 WHEN 'quinto' THEN 5
      END
    ) AS numero
  FROM partes
),
periodos AS (
  SELECT *,
    CASE
      WHEN depois_da_publicacao THEN 'lei'
      WHEN numero BETWEEN 1 AND 30 THEN if(dias.tipo SIMILAR TO '(corrido|consecutivo).*', 'corridos', 'uteis')
      WHEN horas BETWEEN 1 AND 240 THEN 'horas'
      ELSE 'lei'
    END AS periodo
  FROM numeros
),
lidos AS (
  SELECT prazo, lei_nomeada, datas,
    -- Every law counts business days, so plain days are business days, too, which also gives the earlier day.
    CASE periodo WHEN 'uteis' THEN numero WHEN 'lei' THEN da_lei.dias END AS uteis,
    CASE periodo WHEN 'corridos' THEN numero END AS corridos,
    CASE periodo WHEN 'horas' THEN horas END AS horas,
    CASE periodo
      WHEN 'lei' THEN da_lei.nome || ': ' || da_lei.dias || ' dias úteis'
      WHEN 'horas' THEN 'Edital: ' || horas || if(horas = 1, ' hora', ' horas')
      WHEN 'corridos' THEN 'Edital: ' || numero || if(numero = 1, ' dia corrido', ' dias corridos')
      ELSE 'Edital: ' || numero || if(numero = 1, ' dia', ' dias')
        || if(dias.tipo = '', ', contados como úteis', if(numero = 1, ' útil', ' úteis'))
    END AS regra
  FROM periodos
),
editais_lidos AS (
  SELECT * EXCLUDE (datas),
    -- A date that is not shortly before the session is not the deadline, but that of the publication or of the session.
    list_max(list_filter(datas,
      lambda d: coalesce(d < data_sessao_dia AND d >= data_sessao_dia - 30, d BETWEEN DATE '2010-01-01' AND DATE '2060-12-31')
    )) AS data
  FROM editais_ativos
  LEFT JOIN analyses USING (company, edital_id)
  JOIN lidos
    ON prazo IS NOT DISTINCT FROM overview_prazo_impugnacao AND lei_nomeada IS NOT DISTINCT FROM overview_lei_aplicavel
),
calendario_util AS MATERIALIZED (
  SELECT dia, dia_util, dias_uteis_antes FROM calendario
)
SELECT company, edital_id, data_sessao_dia,
  prazo AS prazo_impugnacao,
  lei_nomeada AS lei_aplicavel,
  if(data IS NULL, regra, 'Edital: ' || strftime(data, '%d/%m/%Y')) AS regra_impugnacao,
  coalesce(data, limite.dia, data_sessao_dia - corridos, (data_sessao_local - to_hours(horas))::DATE)
    AS ultimo_dia_impugnacao,
  date_diff('day', local_time(company, now())::DATE, ultimo_dia_impugnacao) AS dias_ate_impugnacao
FROM editais_lidos
LEFT JOIN calendario_util sessao ON sessao.dia = data_sessao_dia
LEFT JOIN calendario_util limite ON limite.dia_util AND limite.dias_uteis_antes = sessao.dias_uteis_antes - uteis
WHERE data_sessao_dia IS NOT NULL OR data IS NOT NULL
