-- A value in BRL as people write it; NULL if it says nothing.
if(valor > 0 AND NOT valor_suspeito(valor), 'R$ ' || translate(format('{:,.2f}', valor), ',.', '.,'), NULL)
