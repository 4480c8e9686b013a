-- A text in one line, cut after this many characters; for cells that are read at a glance.
trim(regexp_replace(left(texto, maximo), '\s+', ' ', 'g')) || CASE WHEN length(texto) > maximo THEN '…' ELSE '' END
