-- A text from two words before the first that another text does not have at its place: readers cut texts, and the change must be seen.
(SELECT if(palavra <= 6, texto, '… ' || array_to_string(string_split(texto, ' ')[palavra - 2:], ' '))
FROM (
  SELECT min(i) AS palavra
  FROM (SELECT unnest(range(1, greatest(len(string_split(texto, ' ')), len(string_split(outro, ' '))) + 1)) AS i)
  WHERE string_split(texto, ' ')[i] IS DISTINCT FROM string_split(outro, ' ')[i]
))
