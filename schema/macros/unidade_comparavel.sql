-- A unit of measure in one way of writing, to compare prices: "Unidade ", "UND." and "UN" are UN. A unit with a size, such
-- as "Caixa 100 UN", stays apart from one without. NULL if nothing is written.
CASE trim(regexp_replace(upper(strip_accents(unidade)), '[^A-Z0-9]+', ' ', 'g'))
  WHEN '' THEN NULL
  WHEN 'UND' THEN 'UN'
  WHEN 'UNID' THEN 'UN'
  WHEN 'UNIDADE' THEN 'UN'
  WHEN 'UNIDADES' THEN 'UN'
  WHEN 'QUILOGRAMA' THEN 'KG'
  WHEN 'QUILO' THEN 'KG'
  WHEN 'LITRO' THEN 'L'
  WHEN 'METRO' THEN 'M'
  WHEN 'METRO QUADRADO' THEN 'M2'
  WHEN 'METRO CUBICO' THEN 'M3'
  WHEN 'CAIXA' THEN 'CX'
  WHEN 'PACOTE' THEN 'PCT'
  WHEN 'HORA' THEN 'H'
  WHEN 'HORAS' THEN 'H'
  WHEN 'MES MESES' THEN 'MES'
  WHEN 'MESES' THEN 'MES'
  ELSE trim(regexp_replace(upper(strip_accents(unidade)), '[^A-Z0-9]+', ' ', 'g'))
END
