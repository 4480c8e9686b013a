-- A local time as people write it; a day alone at midnight.
if(momento = momento::DATE, strftime(momento, '%d/%m/%Y'), strftime(momento, '%d/%m/%Y %H:%M'))
