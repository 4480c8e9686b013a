-- One row per rule: a day of the year, or a distance from Easter. A day that state law moves is on the Friday after it if it
-- is on a Tuesday, Wednesday or Thursday; its own day may be off, too. Easter by the Meeus/Jones/Butcher algorithm.
WITH regras(uf, mes, dia, pascoa, feriado, tipo, desde, ate, sexta, fonte) AS (VALUES
  (NULL, 1, 1, NULL, 'Confraternização Universal', 'nacional', 2010, 2060, false, 'Lei 662/1949'),
  (NULL, 4, 21, NULL, 'Tiradentes', 'nacional', 2010, 2060, false, 'Lei 662/1949'),
  (NULL, 5, 1, NULL, 'Dia do Trabalho', 'nacional', 2010, 2060, false, 'Lei 662/1949'),
  (NULL, 9, 7, NULL, 'Independência do Brasil', 'nacional', 2010, 2060, false, 'Lei 662/1949'),
  (NULL, 10, 12, NULL, 'Nossa Senhora Aparecida', 'nacional', 2010, 2060, false, 'Lei 6.802/1980'),
  (NULL, 11, 2, NULL, 'Finados', 'nacional', 2010, 2060, false, 'Lei 662/1949'),
  (NULL, 11, 15, NULL, 'Proclamação da República', 'nacional', 2010, 2060, false, 'Lei 662/1949'),
  (NULL, 11, 20, NULL, 'Dia Nacional de Zumbi e da Consciência Negra', 'nacional', 2024, 2060, false, 'Lei 14.759/2023'),
  (NULL, 12, 25, NULL, 'Natal', 'nacional', 2010, 2060, false, 'Lei 662/1949'),
  (NULL, NULL, NULL, -2, 'Paixão de Cristo', 'nacional', 2010, 2060, false, 'Lei 9.093/1995, art. 2º'),
  -- Offices may be closed, by an act of each government, such as the yearly ordinance of the federal one.
  (NULL, NULL, NULL, -48, 'Carnaval (segunda-feira)', 'facultativo', 2010, 2060, false, 'Portaria MGI 11.460/2025'),
  (NULL, NULL, NULL, -47, 'Carnaval (terça-feira)', 'facultativo', 2010, 2060, false, 'Portaria MGI 11.460/2025'),
  (NULL, NULL, NULL, -46, 'Quarta-feira de Cinzas', 'facultativo', 2010, 2060, false, 'Portaria MGI 11.460/2025'),
  (NULL, NULL, NULL, 60, 'Corpus Christi', 'facultativo', 2010, 2060, false, 'Portaria MGI 11.460/2025'),
  (NULL, 10, 28, NULL, 'Dia do Servidor Público', 'facultativo', 2010, 2060, false, 'Lei 8.112/1990, art. 236'),
  (NULL, 12, 24, NULL, 'Véspera de Natal', 'facultativo', 2010, 2060, false, 'Portaria MGI 11.460/2025'),
  (NULL, 12, 31, NULL, 'Véspera de Ano-Novo', 'facultativo', 2010, 2060, false, 'Portaria MGI 11.460/2025'),
  ('AC', 1, 23, NULL, 'Dia do Evangélico', 'estadual', 2010, 2060, true, 'Lei AC 1.538/2004'),
  ('AC', 3, 8, NULL, 'Dia Internacional da Mulher', 'estadual', 2010, 2060, true, 'Lei AC 1.411/2001'),
  ('AC', 6, 15, NULL, 'Aniversário do Acre', 'estadual', 2010, 2060, false, 'Lei AC 14/1964'),
  ('AC', 9, 5, NULL, 'Dia da Amazônia', 'estadual', 2010, 2060, true, 'Lei AC 1.526/2004'),
  ('AC', 11, 17, NULL, 'Tratado de Petrópolis', 'estadual', 2010, 2060, true, 'Lei AC 57/1965'),
  ('AL', 6, 24, NULL, 'São João', 'estadual', 2010, 2060, false, 'Lei AL 5.508/1993'),
  ('AL', 6, 29, NULL, 'São Pedro', 'estadual', 2010, 2060, false, 'Lei AL 5.509/1993'),
  ('AL', 9, 16, NULL, 'Emancipação política de Alagoas', 'estadual', 2010, 2060, false, 'Calendário de Alagoas'),
  ('AL', 11, 20, NULL, 'Consciência Negra', 'estadual', 2010, 2023, false, 'Lei AL 5.724/1995'),
  ('AL', 11, 30, NULL, 'Dia do Evangélico', 'estadual', 2013, 2060, false, 'Lei AL 7.441/2012'),
  ('AM', 9, 5, NULL, 'Elevação do Amazonas a província', 'estadual', 2010, 2060, false, 'Lei AM 25/1977'),
  ('AM', 11, 20, NULL, 'Consciência Negra', 'estadual', 2010, 2023, false, 'Lei AM Promulgada 84/2010'),
  ('AP', 3, 19, NULL, 'São José', 'estadual', 2010, 2060, false, 'Lei AP 667/2002'),
  ('AP', 7, 25, NULL, 'São Tiago', 'estadual', 2012, 2060, false, 'Calendário do Amapá'),
  ('AP', 9, 13, NULL, 'Criação do Território Federal do Amapá', 'estadual', 2010, 2060, false, 'Calendário do Amapá'),
  ('AP', 11, 20, NULL, 'Consciência Negra', 'estadual', 2010, 2023, false, 'Lei AP 1.169/2007'),
  ('BA', 7, 2, NULL, 'Independência da Bahia', 'estadual', 2010, 2060, false, 'Constituição da Bahia, art. 6º, § 3º'),
  ('CE', 3, 19, NULL, 'São José', 'estadual', 2010, 2060, false, 'Calendário do Ceará'),
  ('CE', 3, 25, NULL, 'Abolição da escravidão no Ceará', 'estadual', 2010, 2060, false, 'Emenda CE 73/2011'),
  ('CE', 8, 15, NULL, 'Nossa Senhora da Assunção', 'facultativo', 2010, 2060, false, 'Calendário do Ceará'),
  ('DF', 11, 30, NULL, 'Dia do Evangélico', 'estadual', 2010, 2060, false, 'Lei DF 963/1995'),
  ('ES', NULL, NULL, 8, 'Nossa Senhora da Penha', 'estadual', 2020, 2060, false, 'Lei ES 11.010/2019'),
  ('GO', 7, 26, NULL, 'Fundação da cidade de Goiás', 'estadual', 2010, 2060, false, 'Lei GO 20.756/2020'),
  ('GO', 10, 24, NULL, 'Pedra fundamental de Goiânia', 'estadual', 2010, 2060, false, 'Lei GO 20.756/2020'),
  ('MA', 7, 28, NULL, 'Adesão do Maranhão à Independência', 'estadual', 2010, 2060, false, 'Lei MA 2.457/1964'),
  ('MS', 10, 11, NULL, 'Criação do Estado', 'estadual', 2010, 2060, false, 'Lei MS 10/1979'),
  ('MT', 11, 20, NULL, 'Consciência Negra', 'estadual', 2010, 2023, false, 'Lei MT 7.879/2002'),
  ('PA', 8, 15, NULL, 'Adesão do Pará à Independência', 'estadual', 2010, 2060, false, 'Lei PA 5.999/1996'),
  ('PB', 7, 26, NULL, 'Memória de João Pessoa', 'facultativo', 2010, 2060, false, 'Lei PB 3.489/1967'),
  ('PB', 8, 5, NULL, 'Fundação do Estado', 'estadual', 2010, 2060, false, 'Lei PB 10.601/2015'),
  ('PE', 3, 6, NULL, 'Revolução Pernambucana', 'estadual', 2018, 2060, false, 'Lei PE 16.059/2017'),
  ('PE', 6, 24, NULL, 'São João', 'facultativo', 2010, 2060, false, 'Calendário de Pernambuco'),
  ('PI', 3, 13, NULL, 'Batalha do Jenipapo', 'facultativo', 2010, 2060, false, 'Calendário do Piauí'),
  ('PI', 10, 19, NULL, 'Dia do Piauí', 'estadual', 2010, 2060, false, 'Lei PI 176/1937'),
  ('PR', 12, 19, NULL, 'Emancipação política do Paraná', 'estadual', 2010, 2013, false, 'Lei PR 4.658/1962'),
  ('PR', 12, 19, NULL, 'Emancipação política do Paraná', 'facultativo', 2014, 2060, false, 'Lei PR 18.384/2014'),
  ('RJ', NULL, NULL, -47, 'Carnaval (terça-feira)', 'estadual', 2010, 2060, false, 'Lei RJ 5.243/2008'),
  ('RJ', 4, 23, NULL, 'São Jorge', 'estadual', 2010, 2060, false, 'Lei RJ 5.198/2008'),
  ('RJ', 11, 20, NULL, 'Consciência Negra', 'estadual', 2010, 2023, false, 'Lei RJ 4.007/2002'),
  ('RN', 8, 7, NULL, 'Dia do Rio Grande do Norte', 'facultativo', 2010, 2060, false, 'Lei RN 7.831/2000'),
  ('RN', 10, 3, NULL, 'Mártires de Cunhaú e Uruaçu', 'estadual', 2010, 2060, false, 'Lei RN 8.913/2006'),
  ('RO', 1, 4, NULL, 'Criação do Estado', 'estadual', 2010, 2060, false, 'Lei RO 2.291/2010'),
  ('RO', 6, 18, NULL, 'Dia do Evangélico', 'estadual', 2010, 2060, false, 'Lei RO 1.026/2001'),
  ('RR', 10, 5, NULL, 'Criação do Estado', 'estadual', 2010, 2060, false, 'Constituição de Roraima, art. 9º'),
  ('RS', 9, 20, NULL, 'Revolução Farroupilha', 'estadual', 2010, 2060, false, 'Constituição do Rio Grande do Sul, art. 6º'),
  ('SE', 6, 24, NULL, 'São João', 'facultativo', 2010, 2060, false, 'Calendário de Sergipe'),
  ('SE', 7, 8, NULL, 'Autonomia política de Sergipe', 'estadual', 2010, 2060, false, 'Calendário de Sergipe'),
  ('SP', 7, 9, NULL, 'Revolução Constitucionalista', 'estadual', 2010, 2060, false, 'Lei SP 9.497/1997'),
  ('SP', 11, 20, NULL, 'Consciência Negra', 'estadual', 2023, 2023, false, 'Lei SP 17.746/2023'),
  ('TO', 3, 18, NULL, 'Autonomia do Tocantins', 'estadual', 2010, 2060, false, 'Lei TO 960/1998'),
  ('TO', 9, 8, NULL, 'Nossa Senhora da Natividade', 'estadual', 2010, 2060, false, 'Lei TO 627/1993'),
  ('TO', 10, 5, NULL, 'Criação do Estado', 'estadual', 2010, 2060, false, 'Lei TO 98/1989')
),
anos AS (SELECT unnest(range(2010, 2061)) AS ano),
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
domingos AS (
  SELECT ano, make_date(ano, n // 31, n % 31 + 1) AS domingo FROM pascoa_4
),
dias AS (
  SELECT uf, coalesce(domingo + pascoa, make_date(ano, mes, dia)) AS proprio, feriado, tipo, fonte,
    sexta AND isodow(proprio) BETWEEN 2 AND 4 AS adiado
  FROM domingos JOIN regras ON ano BETWEEN desde AND ate
)
SELECT if(adiado, proprio + (5 - isodow(proprio))::INTEGER, proprio) AS dia, uf, feriado, tipo, fonte FROM dias
UNION ALL
SELECT proprio, uf, feriado, 'facultativo', fonte FROM dias WHERE adiado
