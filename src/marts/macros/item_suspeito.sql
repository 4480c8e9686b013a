-- Whether the total value of an item cannot be meant: none is worth more than its whole notice. Values are rounded; one real or
-- less is no value of a notice, and NULL is not known.
valor_suspeito(valor) OR coalesce(do_edital > 1 AND valor > 1.01 * do_edital, false)
