-- A text in one line, cut after this many characters; for cells that are read at a glance.
left(texto_limpo(left(texto, 8 * maximo)), maximo) || CASE WHEN length(texto_limpo(left(texto, 8 * maximo))) > maximo THEN '…' ELSE '' END
