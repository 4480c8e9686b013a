-- A text from two words before the first that another text does not have at its place: readers cut texts, and the change must be seen.
-- The words are split once: texts can be long.
(SELECT if(palavra <= 6, texto, '… ' || array_to_string(string_split(texto, ' ')[palavra - 2:], ' '))
FROM (
  SELECT min(i) FILTER (a IS DISTINCT FROM b) AS palavra
  FROM (
    SELECT unnest(string_split(texto, ' ')) AS a, unnest(string_split(outro, ' ')) AS b,
      unnest(range(1, greatest(len(string_split(texto, ' ')), len(string_split(outro, ' '))) + 1)) AS i
  )
))
