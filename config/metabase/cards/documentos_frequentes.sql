-- Requisitos mais frequentes
-- Requisitos que estão em três editais ativos ou mais, os mais frequentes primeiro: o que convém manter em dia. As cores são só dos editais
-- em andamento sem sessão passada; a porcentagem, entre os editais com requisitos.
SELECT curto(requisito, 80) AS "Requisito", coalesce(categoria_rotulo, 'não informada') AS "Categoria", editais AS "Editais",
  round(100 * parcela)::BIGINT AS "% dos editais", vermelhos AS "Vermelhos", amarelos AS "Amarelos", verdes AS "Verdes"
FROM documentos_frequentes
ORDER BY editais DESC, categoria, requisito
LIMIT 50
