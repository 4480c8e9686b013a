-- What a notice states was read when its analysis was loaded (schema/deadlines): here, readings and laws become days. Of several
-- days, the earlier one counts, because a missed day cannot be repaired.
WITH leis(norma, nome, dias, nomeada) AS (VALUES
  ('13303', 'Lei 13.303/2016, art. 87', 5, true),
  ('14133', 'Lei 14.133/2021, art. 164', 3, true),
  ('10024', 'Decreto 10.024/2019, art. 24', 3, true),
  ('3555', 'Decreto 3.555/2000, art. 12', 2, true),
  -- Its paragraph 2, for bidders; other citizens have five days.
  ('8666', 'Lei 8.666/1993, art. 41', 2, true),
  ('regulamento', 'Lei 13.303/2016, art. 87 (regulamento próprio)', 5, false),
  ('', 'Lei 14.133/2021, art. 164 (presumida)', 3, false)
),
modalidades AS (
  SELECT modalidade,
    CASE
      WHEN regexp_matches(lower(strip_accents(modalidade)), 'dispensa|inexigib|contratacao direta') THEN 'direta'
      WHEN regexp_matches(lower(strip_accents(modalidade)), 'presencial') THEN 'presencial'
      WHEN modalidade IS NULL THEN ''
      ELSE 'outra'
    END AS tipo
  FROM (SELECT DISTINCT modalidade FROM editais_ativos)
),
-- Many notices have the same texts: each is unpacked once.
lidos AS (
  SELECT prazos_lidos, from_json(prazos_lidos, '{
    "impugnacao": [{"dia": "DATE", "dia_mes": "VARCHAR", "dia_do_mes": "INTEGER", "n": "INTEGER", "unidade": "VARCHAR",
      "sem_tipo": "BOOLEAN", "apos_publicacao": "BOOLEAN", "base": "DATE", "nomeado": "BOOLEAN", "trecho": "VARCHAR"}],
    "esclarecimento": [{"dia": "DATE", "dia_mes": "VARCHAR", "dia_do_mes": "INTEGER", "n": "INTEGER", "unidade": "VARCHAR",
      "sem_tipo": "BOOLEAN", "apos_publicacao": "BOOLEAN", "base": "DATE", "nomeado": "BOOLEAN", "trecho": "VARCHAR"}],
    "cortado": "BOOLEAN", "normas": ["VARCHAR"], "direta": "BOOLEAN"}') AS lido
  FROM (SELECT DISTINCT prazos_lidos FROM analyses UNION SELECT NULL)
),
leituras AS (
  SELECT prazos_lidos, tipo, ato, 'edital' AS fonte, leitura, NULL AS nome
  FROM (
    SELECT prazos_lidos, 'impugnacao' AS ato, unnest(lido.impugnacao) AS leitura FROM lidos
    UNION ALL
    SELECT prazos_lidos, 'esclarecimento', unnest(lido.esclarecimento) FROM lidos
  )
  CROSS JOIN (SELECT DISTINCT tipo FROM modalidades)
),
-- Without a known law, that of most notices is presumed. Nobody can contest direct contracting by law (articles 74 and 75),
-- unless the notice says so.
normas AS (
  SELECT prazos_lidos, tipo,
    CASE norma WHEN 'pregao' THEN if(tipo = 'presencial', '3555', '10024') ELSE norma END AS norma
  FROM (
    SELECT prazos_lidos, unnest(if(coalesce(len(lido.normas), 0) = 0, [''], lido.normas)) AS norma,
      coalesce(lido.direta, false) AS direta
    FROM lidos
  )
  CROSS JOIN (SELECT DISTINCT tipo FROM modalidades)
  WHERE tipo <> 'direta' AND NOT (direta AND tipo = '')
),
candidatos AS (
  SELECT prazos_lidos, tipo, ato, fonte, nome, leitura.dia, leitura.dia_mes, leitura.dia_do_mes, leitura.n, leitura.unidade,
    coalesce(leitura.sem_tipo, false) AS sem_tipo, coalesce(leitura.apos_publicacao, false) AS apos_publicacao,
    leitura.base, leitura.nomeado, leitura.trecho
  FROM leituras
  UNION ALL
  SELECT prazos_lidos, tipo, NULL, if(nomeada, 'lei', 'presumida'), nome, NULL, NULL, NULL, dias, 'uteis', false, false, NULL,
    NULL, NULL
  FROM normas JOIN leis USING (norma)
),
editais_lidos AS (
  SELECT company, edital_id, data_sessao_dia, data_sessao_local, prazos_lidos, tipo,
    overview_prazo_impugnacao AS prazo, overview_lei_aplicavel AS lei_nomeada,
    if(uf IN (SELECT DISTINCT uf FROM feriados WHERE uf IS NOT NULL), uf, '') AS uf
  FROM editais_ativos
  LEFT JOIN analyses USING (company, edital_id)
  LEFT JOIN modalidades m ON m.modalidade IS NOT DISTINCT FROM editais_ativos.modalidade
),
-- Each state has days of its own. On an optional day off, an office may be open or not, so there are two counts.
fechados AS (
  SELECT e.uf, dia, bool_or(f.tipo <> 'facultativo') AS feriado
  FROM (SELECT DISTINCT uf FROM editais_lidos) e JOIN feriados f ON f.uf IS NULL OR f.uf = e.uf
  GROUP BY ALL
),
dias AS (
  SELECT uf, dia,
    isodow(dia) < 6 AND feriado IS NULL AS certo,
    isodow(dia) < 6 AND feriado IS NOT TRUE AS possivel
  FROM (SELECT DISTINCT uf FROM editais_lidos)
  CROSS JOIN (
    SELECT unnest(generate_series(min(data_sessao_dia) - 130, max(data_sessao_dia) + 70, INTERVAL 1 DAY))::DATE AS dia
    FROM editais_lidos
  )
  LEFT JOIN fechados USING (uf, dia)
),
contados AS (
  SELECT *,
    sum(certo::INTEGER) OVER (PARTITION BY uf ORDER BY dia) - certo::INTEGER AS certos_antes,
    sum(possivel::INTEGER) OVER (PARTITION BY uf ORDER BY dia) - possivel::INTEGER AS possiveis_antes
  FROM dias
),
certos AS (SELECT uf, certos_antes, dia FROM contados WHERE certo),
possiveis AS (SELECT uf, possiveis_antes, dia FROM contados WHERE possivel),
datados AS (
  SELECT c.*, e.company, e.edital_id, e.uf, e.data_sessao_dia, e.data_sessao_local,
    coalesce(base, if(apos_publicacao, NULL, data_sessao_dia)) AS evento,
    CASE
      WHEN dia IS NOT NULL THEN dia
      -- The last such day before the session.
      WHEN dia_mes IS NOT NULL THEN (
        list_filter(
          [TRY_CAST(year(data_sessao_dia) || '-' || dia_mes AS DATE), TRY_CAST(year(data_sessao_dia) - 1 || '-' || dia_mes AS DATE)],
          lambda d: d <= data_sessao_dia
        ))[1]
      WHEN dia_do_mes IS NOT NULL THEN (
        list_filter(
          [TRY_CAST(strftime(data_sessao_dia, '%Y-%m-') || dia_do_mes AS DATE),
            TRY_CAST(strftime(data_sessao_dia - INTERVAL 1 MONTH, '%Y-%m-') || dia_do_mes AS DATE)],
          lambda d: d < data_sessao_dia
        ))[1]
      WHEN unidade = 'horas' AND NOT apos_publicacao THEN (data_sessao_local - to_hours(n))::DATE
      WHEN unidade = 'corridos' THEN if(apos_publicacao, evento + n, evento - n)
    END AS dia_escrito
  FROM editais_lidos e
  JOIN candidatos c ON c.tipo = e.tipo AND c.prazos_lidos IS NOT DISTINCT FROM e.prazos_lidos
),
-- A text may name the day of an event that was put off: the period counts from the session, too.
eventos AS (
  SELECT * FROM datados
  UNION ALL
  SELECT * REPLACE (data_sessao_dia AS evento, if(unidade = 'corridos', data_sessao_dia - n, dia_escrito) AS dia_escrito)
  FROM datados WHERE base <> data_sessao_dia AND NOT apos_publicacao
),
calculados AS (
  SELECT e.*,
    coalesce(dia_escrito, least(certos.dia, possiveis.dia)) AS calculado,
    dia_escrito IS NULL AND certos.dia <> possiveis.dia AS facultativo
  FROM eventos e
  LEFT JOIN contados c ON c.dia = evento AND c.uf = e.uf AND unidade = 'uteis'
  LEFT JOIN certos ON certos.uf = e.uf
    AND certos.certos_antes = if(apos_publicacao, c.certos_antes + c.certo::INTEGER + n - 1, c.certos_antes - n)
  LEFT JOIN possiveis ON possiveis.uf = e.uf
    AND possiveis.possiveis_antes = if(apos_publicacao, c.possiveis_antes + c.possivel::INTEGER + n - 1, c.possiveis_antes - n)
),
-- A date that is not shortly before the session is not the deadline, unless the text says so: some terms run from the publication.
plausiveis AS (
  SELECT company, edital_id, ato, fonte, nome, nomeado, trecho, facultativo OR dia_do_mes IS NOT NULL AS duvidoso,
    CASE
      WHEN data_sessao_dia IS NULL THEN if(calculado BETWEEN DATE '2010-01-01' AND DATE '2060-12-31', calculado, NULL)
      WHEN fonte <> 'edital' OR n IS NOT NULL AND NOT apos_publicacao THEN calculado
      WHEN calculado >= data_sessao_dia - if(nomeado AND dia_mes IS NULL, 120, 30)
        AND (calculado < data_sessao_dia OR nomeado AND calculado = data_sessao_dia) THEN calculado
    END AS dia,
    coalesce(nome, 'Edital') || ': ' || CASE
      WHEN n IS NULL THEN strftime(calculado, '%d/%m/%Y')
      WHEN n = 0 THEN 'até a sessão'
      WHEN unidade = 'horas' THEN n || if(n = 1, ' hora', ' horas')
      WHEN unidade = 'corridos' THEN n || if(n = 1, ' dia corrido', ' dias corridos')
      WHEN sem_tipo THEN n || if(n = 1, ' dia', ' dias') || ', contados como úteis'
      ELSE n || if(n = 1, ' dia útil', ' dias úteis')
    END || if(apos_publicacao, ' após a publicação', '') AS regra
  FROM calculados
),
listas AS (
  SELECT company, edital_id,
    list({'dia': dia, 'ordem': if(fonte = 'edital', 1, 2), 'fonte': fonte, 'regra': regra, 'trecho': trecho, 'nomeado': nomeado,
      'duvidoso': duvidoso, 'ato': ato}) FILTER (dia IS NOT NULL) AS todos,
    count(*) FILTER (ato = 'impugnacao') AS lidos_impugnacao,
    count(*) FILTER (ato = 'esclarecimento') AS lidos_esclarecimento
  FROM plausiveis
  GROUP BY ALL
),
por_ato AS (
  SELECT *,
    list_filter(todos, lambda t: t.ato = 'impugnacao') AS impugnacao,
    list_filter(todos, lambda t: t.ato = 'esclarecimento') AS esclarecimento,
    list_filter(todos, lambda t: t.ato IS NULL) AS lei,
    list_filter(lei, lambda t: t.fonte = 'lei') AS lei_nomeada
  FROM listas
),
-- By law, questions may be asked as long as the notice may be contested.
escolhidos AS (
  SELECT company, edital_id, lidos_impugnacao, lidos_esclarecimento,
    list_sort(if(len(impugnacao) > 0, list_concat(impugnacao, lei_nomeada), lei)) AS i,
    list_sort(if(len(esclarecimento) > 0, list_concat(esclarecimento, lei_nomeada), list_concat(impugnacao, lei))) AS e,
    len(impugnacao) AS usados_impugnacao, len(esclarecimento) AS usados_esclarecimento
  FROM por_ato
),
dias_escolhidos AS (
  SELECT *, list_filter(i, lambda t: t.dia > i[1].dia)[1] AS outro_i, list_filter(e, lambda t: t.dia > e[1].dia)[1] AS outro_e
  FROM escolhidos
)
SELECT company, edital_id, data_sessao_dia,
  prazo AS prazo_impugnacao,
  r.lei_nomeada AS lei_aplicavel,
  coalesce(i[1].regra || coalesce('; ' || outro_i.regra, ''), 'Sem prazo em lei: contratação direta') AS regra_impugnacao,
  i[1].dia AS ultimo_dia_impugnacao,
  date_diff('day', local_time(company, now())::DATE, ultimo_dia_impugnacao) AS dias_ate_impugnacao,
  CASE
    WHEN i[1].dia IS NULL THEN NULL
    WHEN outro_i IS NOT NULL OR i[1].duvidoso OR usados_impugnacao = 0 AND lidos_impugnacao > 0 OR coalesce(lido.cortado, false)
      OR year(i[1].dia) NOT BETWEEN 2020 AND 2035 THEN 'a confirmar'
    WHEN i[1].fonte = 'edital' THEN 'do edital'
    WHEN i[1].fonte = 'lei' THEN 'da lei'
    ELSE 'presumido'
  END AS certeza_impugnacao,
  CASE WHEN i[1].nomeado THEN 'impugnação' END AS ato_lido,
  i[1].trecho AS trecho_lido,
  e[1].dia AS ultimo_dia_esclarecimento,
  date_diff('day', local_time(company, now())::DATE, ultimo_dia_esclarecimento) AS dias_ate_esclarecimento,
  coalesce(e[1].regra || coalesce('; ' || outro_e.regra, ''), 'Sem prazo em lei: contratação direta') AS regra_esclarecimento,
  CASE
    WHEN e[1].dia IS NULL THEN NULL
    WHEN usados_esclarecimento = 0 AND e[1].fonte = 'edital' THEN 'presumido'
    WHEN outro_e IS NOT NULL OR e[1].duvidoso OR usados_esclarecimento = 0 AND lidos_esclarecimento > 0
      OR coalesce(lido.cortado, false) OR year(e[1].dia) NOT BETWEEN 2020 AND 2035 THEN 'a confirmar'
    WHEN e[1].fonte = 'edital' THEN 'do edital'
    WHEN e[1].fonte = 'lei' THEN 'da lei'
    ELSE 'presumido'
  END AS certeza_esclarecimento,
  e[1].trecho AS trecho_esclarecimento
FROM editais_lidos r
LEFT JOIN lidos ON lidos.prazos_lidos IS NOT DISTINCT FROM r.prazos_lidos
LEFT JOIN dias_escolhidos USING (company, edital_id)
WHERE data_sessao_dia IS NOT NULL OR i[1].dia IS NOT NULL OR e[1].dia IS NOT NULL
