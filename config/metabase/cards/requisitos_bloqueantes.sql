-- Requisitos que mais bloqueiam
-- Requisitos vermelhos dos editais em andamento com sessão por vir, e o valor desses editais; um edital conta em cada
-- requisito que o bloqueia. À parte, os editais sem data.
SELECT curto(requisito, 80) AS "Requisito", coalesce(categoria_rotulo, 'não informada') AS "Categoria", editais AS "Editais",
  valor_total AS "Valor bloqueado", editais_so_este AS "Só este requisito", valor_so_este AS "Valor só deste",
  proxima_sessao_dia AS "Próxima sessão",
  editais_sem_sessao AS "Sem data"
FROM requisitos_bloqueantes
ORDER BY valor_total DESC, editais DESC, categoria, requisito
LIMIT 50
