-- Whether the total value of an item cannot be meant: no item is worth more than its whole notice, whose value is NULL if unknown.
valor_suspeito(valor) OR coalesce(valor > do_edital, false)
