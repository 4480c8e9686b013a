-- A unit of measure in one way of writing, to compare prices: "Unidade ", "UND." and "UN" are UN. A unit with a size, such
-- as "Caixa 100 UN", stays apart from one without. NULL if nothing is written. Not CASE, which would compute the key again for
-- each unit.
nullif(
  coalesce(
    list_extract(
      ['UN', 'UN', 'UN', 'UN', 'KG', 'KG', 'L', 'M', 'M2', 'M3', 'CX', 'PCT', 'H', 'H', 'MES', 'MES'],
      list_position(
        ['UND', 'UNID', 'UNIDADE', 'UNIDADES', 'QUILOGRAMA', 'QUILO', 'LITRO', 'METRO', 'METRO QUADRADO', 'METRO CUBICO',
          'CAIXA', 'PACOTE', 'HORA', 'HORAS', 'MES MESES', 'MESES'],
        trim(regexp_replace(upper(chave(unidade)), '[^A-Z0-9]+', ' ', 'g'))
      )
    ),
    trim(regexp_replace(upper(chave(unidade)), '[^A-Z0-9]+', ' ', 'g'))
  ),
  ''
)
