-- A text, and in which notice the purchase counts if it was published again (`contado_no_numero`), for people; NULL without both.
nullif(concat_ws(' · ', texto, CASE WHEN numero = 'sem número' THEN 'republicado sem número' ELSE 'republicado no nº ' || curto(numero, 30) END), '')
