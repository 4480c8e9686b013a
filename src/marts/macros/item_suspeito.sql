-- Whether the total value of an item cannot be meant: none is worth more than its whole notice (`teto_dos_itens`). Values are rounded.
valor_suspeito(valor) OR coalesce(valor > 1.01 * teto, false)
