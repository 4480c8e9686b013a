-- A unit of measure in one way of writing, to compare prices: "Unidade ", "UND." and "UN" are UN. A unit with a size, such
-- as "Caixa 100 UN", stays apart from one without, and m² from m. NULL if nothing is written. Not CASE, which would compute the
-- key again for each unit.
nullif(
  coalesce(
    list_extract(
      ['UN', 'UN', 'UN', 'UN', 'KG', 'KG', 'L', 'M', 'M2', 'M2', 'M3', 'M3', 'CX', 'PCT', 'H', 'H', 'MES', 'MES'],
      list_position(
        ['UND', 'UNID', 'UNIDADE', 'UNIDADES', 'QUILOGRAMA', 'QUILO', 'LITRO', 'METRO', 'METRO QUADRADO', 'M²', 'METRO CUBICO',
          'M³', 'CAIXA', 'PACOTE', 'HORA', 'HORAS', 'MES MESES', 'MESES'],
        trim(regexp_replace(upper(chave(unidade)), '[^\p{L}\p{N}]+', ' ', 'g'))
      )
    ),
    trim(regexp_replace(upper(chave(unidade)), '[^\p{L}\p{N}]+', ' ', 'g'))
  ),
  ''
)
