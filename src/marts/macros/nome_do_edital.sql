-- A notice, for people, in lists of its parts: its buyer and number.
concat_ws(' · ', curto(orgao, 50), 'nº ' || curto(numero, 20))
