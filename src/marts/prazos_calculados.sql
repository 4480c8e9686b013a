-- What a notice states was read when its analysis was loaded (src/deadlines): here, readings and laws become days. Of several
-- days, the earlier one counts, because a missed day cannot be repaired.
WITH leis(norma, nome, dias, nomeada) AS (VALUES
  ('13303', 'Lei 13.303/2016, art. 87', 5, true),
  ('14133', 'Lei 14.133/2021, art. 164', 3, true),
  ('10024', 'Decreto 10.024/2019, art. 24', 3, true),
  ('3555', 'Decreto 3.555/2000, art. 12', 2, true),
  -- Its paragraph 2, for bidders; other citizens have five days.
  ('8666', 'Lei 8.666/1993, art. 41', 2, true),
  -- For works and services; for goods, two.
  ('12462', 'Lei 12.462/2011, art. 45', 5, true),
  ('regulamento', 'Lei 13.303/2016, art. 87 (regulamento próprio)', 5, false),
  ('', 'Lei 14.133/2021, art. 164 (presumida)', 3, false)
),
tipos AS (SELECT unnest(['direta', 'presencial', 'outra', '']) AS tipo),
-- Many notices have the same texts: each is unpacked once.
lidos AS (
  SELECT *, lido.impugnacao = lido.esclarecimento OR prazos_lidos IS NULL AS iguais
  FROM (SELECT prazos_lidos, from_json(prazos_lidos, '{
    "impugnacao": [{"dia": "DATE", "dia_mes": "VARCHAR", "dia_do_mes": "INTEGER", "n": "INTEGER", "unidade": "VARCHAR",
      "sem_tipo": "BOOLEAN", "apos_publicacao": "BOOLEAN", "base": "DATE", "solto": "BOOLEAN", "nomeado": "BOOLEAN", "trecho": "VARCHAR"}],
    "esclarecimento": [{"dia": "DATE", "dia_mes": "VARCHAR", "dia_do_mes": "INTEGER", "n": "INTEGER", "unidade": "VARCHAR",
      "sem_tipo": "BOOLEAN", "apos_publicacao": "BOOLEAN", "base": "DATE", "solto": "BOOLEAN", "nomeado": "BOOLEAN", "trecho": "VARCHAR"}],
    "cortado": "BOOLEAN", "sem_leitura": "BOOLEAN", "normas": ["VARCHAR"], "direta": "BOOLEAN"}') AS lido
  FROM (SELECT DISTINCT prazos_lidos FROM analyses UNION SELECT NULL))
),
-- What each act's texts say. A text that names only contesting is taken for questions, too.
leituras AS (
  SELECT prazos_lidos, iguais, ato, herdado, unnest(escritos) AS leitura
  FROM (
    SELECT prazos_lidos, iguais, 'impugnacao' AS ato, false AS herdado, lido.impugnacao AS escritos FROM lidos
    UNION ALL
    SELECT prazos_lidos, iguais, 'esclarecimento', len(lido.esclarecimento) = 0,
      if(len(lido.esclarecimento) = 0, lido.impugnacao, lido.esclarecimento)
    FROM lidos WHERE NOT iguais
  )
),
-- Without a known law, that of most notices is presumed. Nobody can contest direct contracting by law (articles 74 and 75).
normas AS (
  SELECT prazos_lidos, tipo, iguais,
    CASE norma WHEN 'pregao' THEN if(tipo = 'presencial', '3555', '10024') ELSE norma END AS norma
  FROM (
    SELECT prazos_lidos, iguais, unnest(if(coalesce(len(lido.normas), 0) = 0, [''], lido.normas)) AS norma,
      coalesce(lido.direta, false) AS direta
    FROM lidos
  )
  CROSS JOIN tipos
  WHERE tipo <> 'direta' AND NOT (direta AND tipo = '')
),
atos AS (SELECT unnest(['impugnacao', 'esclarecimento']) AS ato),
candidatos AS (
  SELECT prazos_lidos, tipo, ato, herdado, 'edital' AS fonte, 'Edital' AS nome, leitura.dia, leitura.dia_mes, leitura.dia_do_mes,
    leitura.n, leitura.unidade, coalesce(leitura.sem_tipo, false) AS sem_tipo,
    coalesce(leitura.apos_publicacao, false) AS apos_publicacao, leitura.base, coalesce(leitura.solto, false) AS solto,
    leitura.nomeado, leitura.trecho
  FROM leituras CROSS JOIN tipos
  UNION ALL
  SELECT prazos_lidos, tipo, ato, false, if(nomeada, 'lei', 'presumida'), nome, NULL, NULL, NULL, dias, 'uteis', false, false,
    NULL, false, NULL, NULL
  FROM normas JOIN leis USING (norma) CROSS JOIN atos
  WHERE ato = 'impugnacao' OR NOT iguais
),
descritos AS (
  SELECT *,
    unidade = 'uteis' AND base IS NULL AND NOT apos_publicacao AS simples,
    CASE
      WHEN n = 0 THEN nome || ': até a sessão'
      WHEN unidade = 'horas' THEN nome || ': ' || n || if(n = 1, ' hora', ' horas')
      WHEN unidade = 'corridos' THEN nome || ': ' || n || if(n = 1, ' dia corrido', ' dias corridos')
      WHEN sem_tipo THEN nome || ': ' || n || if(n = 1, ' dia', ' dias') || ', contados como úteis'
      WHEN n IS NOT NULL THEN nome || ': ' || n || if(n = 1, ' dia útil', ' dias úteis')
    END || if(apos_publicacao, ' após a publicação', '') AS regra,
    -- A presumed law counts only if the notice states nothing that is surely of this act.
    fonte = 'presumida' AND bool_or(fonte = 'edital' AND NOT herdado AND NOT solto) OVER (PARTITION BY prazos_lidos, tipo, ato) AS reserva
  FROM candidatos
),
-- Of terms in business days before the session, the longest gives the earliest day, whatever the session is.
unidos AS (
  SELECT prazos_lidos, tipo, ato, reserva, max(n) AS n,
    arg_max({'fonte': fonte, 'regra': regra, 'nomeado': nomeado, 'trecho': trecho, 'herdado': herdado}, (n, fonte = 'edital', regra, trecho))
      AS mais_cedo,
    arg_min(regra, (n, regra)) AS outra_regra,
    min(n) < max(n) AS ha_outro
  FROM descritos WHERE simples
  GROUP BY ALL
),
juntos AS (
  SELECT prazos_lidos, tipo, ato, reserva, mais_cedo.fonte AS fonte,
    mais_cedo.regra AS regra, if(ha_outro, outra_regra, NULL) AS alternativa, mais_cedo.nomeado AS nomeado, mais_cedo.trecho AS trecho, mais_cedo.herdado AS herdado,
    NULL::DATE AS dia, NULL::VARCHAR AS dia_mes, NULL::INTEGER AS dia_do_mes, n, 'uteis' AS unidade, false AS apos_publicacao,
    NULL::DATE AS base
  FROM unidos
  UNION ALL
  SELECT prazos_lidos, tipo, ato, reserva, fonte, regra, NULL, nomeado, trecho, herdado, dia, dia_mes, dia_do_mes, n, unidade,
    apos_publicacao, base
  FROM descritos WHERE NOT coalesce(simples, false)
),
-- The place makes the choice among equal days the same each time: a term in business days first, because it knows what else they may be.
regras AS (
  SELECT *, row_number() OVER (
      PARTITION BY prazos_lidos, tipo, ato
      ORDER BY fonte = 'edital' DESC, coalesce(unidade = 'uteis', false) DESC, regra, trecho, dia, dia_mes
    )
    AS posicao
  FROM juntos
),
dias_fechados AS MATERIALIZED (SELECT uf, dia, tipo FROM feriados),
editais_lidos AS (
  SELECT company, edital_id, data_sessao_dia, data_sessao_local, prazos_lidos,
    CASE
      WHEN modalidade IS NULL THEN ''
      WHEN contains(chave, 'dispensa') OR contains(chave, 'inexigib') OR contains(chave, 'contratacao direta') THEN 'direta'
      WHEN contains(chave, 'presencial') THEN 'presencial'
      ELSE 'outra'
    END AS tipo,
    overview_prazo_impugnacao AS prazo, overview_lei_aplicavel AS lei_nomeada,
    if(uf IN (SELECT uf FROM dias_fechados), uf, '') AS uf
  FROM (SELECT *, chave_modalidade(modalidade) AS chave FROM editais_ativos)
  LEFT JOIN analyses USING (company, edital_id)
),
-- Each state has days of its own. On an optional day off, an office may be open or not, so there are two counts.
fechados AS (
  SELECT e.uf, dia, bool_or(f.tipo <> 'facultativo') AS feriado
  FROM (SELECT DISTINCT uf FROM editais_lidos) e JOIN dias_fechados f ON f.uf IS NULL OR f.uf = e.uf
  GROUP BY ALL
),
-- Only of the months around a session: one far away must not cost a calendar of decades.
meses AS (
  SELECT DISTINCT uf, (mes + to_months(n::INTEGER))::DATE AS mes
  FROM (SELECT DISTINCT uf, date_trunc('month', data_sessao_dia) AS mes FROM editais_lidos WHERE data_sessao_dia IS NOT NULL)
  CROSS JOIN range(-5, 3) r(n)
),
dias AS (
  SELECT uf, dia,
    isodow(dia) < 6 AND feriado IS NULL AS certo,
    isodow(dia) < 6 AND feriado IS NOT TRUE AS possivel
  FROM (SELECT uf, unnest(generate_series(mes, last_day(mes), INTERVAL 1 DAY))::DATE AS dia FROM meses)
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
  SELECT r.*, e.company, e.edital_id, e.uf, e.data_sessao_dia,
    coalesce(base, if(apos_publicacao, NULL, data_sessao_dia)) AS evento,
    CASE
      WHEN dia IS NOT NULL THEN dia
      -- The last such day before the session.
      WHEN dia_mes IS NOT NULL THEN coalesce(
        CASE WHEN TRY_CAST(year(data_sessao_dia) || '-' || dia_mes AS DATE) <= data_sessao_dia
          THEN TRY_CAST(year(data_sessao_dia) || '-' || dia_mes AS DATE) END,
        TRY_CAST(year(data_sessao_dia) - 1 || '-' || dia_mes AS DATE))
      WHEN dia_do_mes IS NOT NULL THEN coalesce(
        CASE WHEN TRY_CAST(strftime(data_sessao_dia, '%Y-%m-') || dia_do_mes AS DATE) < data_sessao_dia
          THEN TRY_CAST(strftime(data_sessao_dia, '%Y-%m-') || dia_do_mes AS DATE) END,
        TRY_CAST(strftime(data_sessao_dia - INTERVAL 1 MONTH, '%Y-%m-') || dia_do_mes AS DATE))
      WHEN unidade = 'horas' AND NOT apos_publicacao THEN (data_sessao_local - to_hours(n))::DATE
    END AS dia_escrito
  FROM editais_lidos e
  JOIN regras r ON r.tipo = e.tipo AND r.prazos_lidos IS NOT DISTINCT FROM e.prazos_lidos
),
-- A text may name the day of an event that was put off: the period counts from the session, too.
eventos AS (
  SELECT * FROM datados
  UNION ALL
  SELECT * REPLACE (data_sessao_dia AS evento) FROM datados WHERE base <> data_sessao_dia AND NOT apos_publicacao
),
calculados AS (
  SELECT e.*,
    CASE unidade
      WHEN 'uteis' THEN least(certos.dia, possiveis.dia)
      WHEN 'corridos' THEN if(apos_publicacao, evento + n, evento - n)
      ELSE dia_escrito
    END AS calculado,
    certos.dia <> possiveis.dia AS facultativo
  -- Not a condition on one side, which would compare all rows with all days.
  FROM (SELECT *, CASE WHEN unidade = 'uteis' THEN evento END AS evento_util FROM eventos) e
  LEFT JOIN contados c ON c.dia = evento_util AND c.uf = e.uf
  LEFT JOIN certos ON certos.uf = e.uf
    AND certos.certos_antes = if(apos_publicacao, c.certos_antes + c.certo::INTEGER + n - 1, c.certos_antes - n)
  LEFT JOIN possiveis ON possiveis.uf = e.uf
    AND possiveis.possiveis_antes = if(apos_publicacao, c.possiveis_antes + c.possivel::INTEGER + n - 1, c.possiveis_antes - n)
),
-- A date that is not shortly before the session is not the deadline, unless the text says so: some terms run from the publication.
plausiveis AS (
  SELECT company, edital_id, ato, fonte, reserva, nomeado, trecho, herdado, alternativa,
    facultativo OR alternativa IS NOT NULL OR dia_do_mes IS NOT NULL OR n IS NULL AND calculado < data_sessao_dia - 30
      AS duvidoso,
    CASE
      WHEN data_sessao_dia IS NULL THEN if(calculado BETWEEN DATE '2010-01-01' AND DATE '2060-12-31', calculado, NULL)
      WHEN n IS NOT NULL AND NOT apos_publicacao THEN calculado
      WHEN calculado >= data_sessao_dia - if(nomeado AND dia_mes IS NULL, 120, 30)
        AND (calculado < data_sessao_dia OR nomeado AND calculado = data_sessao_dia) THEN calculado
    END AS ultimo,
    coalesce(regra || if(evento = base AND base <> data_sessao_dia AND NOT apos_publicacao, strftime(base, ' antes de %d/%m/%Y'), ''),
      strftime(calculado, 'Edital: %d/%m/%Y')) AS regra,
    -- Days by the text come before those by law, which come before a presumed one. The day of the session comes last: it is hardly
    -- the last day to contest it.
    (CASE WHEN n IS NULL AND ultimo = data_sessao_dia THEN 2000000 WHEN reserva THEN 1000000 ELSE 0 END + (ultimo - DATE '2000-01-01')) * 100 + posicao AS ordem
  FROM calculados
  -- "5 dias úteis antes da sessão (02/12)": that day is the deadline itself, and no event.
  QUALIFY coalesce(evento <> base
    OR max(calculado) FILTER (evento = data_sessao_dia) OVER (PARTITION BY company, edital_id, ato, posicao) <> base, true)
),
escolhidos AS (
  SELECT company, edital_id, ato,
    arg_min({'dia': ultimo, 'fonte': fonte, 'regra': regra, 'alternativa': alternativa, 'nomeado': nomeado, 'trecho': trecho, 'duvidoso': duvidoso,
      'herdado': herdado}, ordem) FILTER (ultimo IS NOT NULL) AS p,
    arg_max({'dia': ultimo, 'regra': regra}, ordem) FILTER (ultimo IS NOT NULL AND NOT reserva) AS outro,
    bool_or(fonte = 'edital' AND NOT herdado AND ultimo IS NULL) AS ilegivel
  FROM plausiveis
  GROUP BY ALL
),
prazos AS (
  SELECT company, edital_id, ato, p['dia'] AS dia,
    p['regra'] || coalesce('; ' || coalesce(p['alternativa'], if(outro['dia'] > p['dia'], outro['regra'], NULL)), '') AS regra,
    CASE
      WHEN p['herdado'] THEN 'presumido'
      WHEN outro['dia'] > p['dia'] OR p['duvidoso'] OR ilegivel AND p['fonte'] <> 'edital'
        OR year(p['dia']) NOT BETWEEN 2020 AND 2035 THEN 'a confirmar'
      WHEN p['fonte'] = 'edital' THEN 'do edital'
      WHEN p['fonte'] = 'lei' THEN 'da lei'
      ELSE 'presumido'
    END AS certeza,
    CASE WHEN p['nomeado'] THEN 'impugnação' END AS ato_lido,
    p['trecho'] AS trecho
  FROM escolhidos WHERE p IS NOT NULL
)
SELECT company, edital_id, data_sessao_dia,
  prazo AS prazo_impugnacao,
  lei_nomeada AS lei_aplicavel,
  coalesce(i.regra, 'Sem prazo em lei: contratação direta') AS regra_impugnacao,
  i.dia AS ultimo_dia_impugnacao,
  if(incerto AND i.certeza IS NOT NULL, 'a confirmar', i.certeza) AS certeza_impugnacao,
  i.ato_lido,
  i.trecho AS trecho_lido,
  if(iguais, i.dia, e.dia) AS ultimo_dia_esclarecimento,
  coalesce(if(iguais, i.regra, e.regra), 'Sem prazo em lei: contratação direta') AS regra_esclarecimento,
  if(incerto AND if(iguais, i.certeza, e.certeza) IS NOT NULL, 'a confirmar', if(iguais, i.certeza, e.certeza))
    AS certeza_esclarecimento,
  if(iguais, i.trecho, e.trecho) AS trecho_esclarecimento
FROM editais_lidos
LEFT JOIN (SELECT prazos_lidos, iguais, coalesce(lido.cortado OR lido.sem_leitura, lido.cortado, lido.sem_leitura, false) AS incerto FROM lidos) l
  ON l.prazos_lidos IS NOT DISTINCT FROM editais_lidos.prazos_lidos
LEFT JOIN (SELECT * EXCLUDE (ato) FROM prazos WHERE ato = 'impugnacao') i USING (company, edital_id)
LEFT JOIN (SELECT * EXCLUDE (ato) FROM prazos WHERE ato = 'esclarecimento') e USING (company, edital_id)
WHERE data_sessao_dia IS NOT NULL OR i.dia IS NOT NULL OR e.dia IS NOT NULL
