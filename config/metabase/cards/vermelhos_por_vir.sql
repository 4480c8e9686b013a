-- Requisitos vermelhos por sessão
-- De editais em andamento com sessão por vir, da mais próxima à mais distante; as primeiras 50 linhas.
SELECT data_sessao_dia AS "Sessão em", dias_ate_sessao AS "Dias", categoria_rotulo AS "Categoria", curto(titulo, 80) AS "Requisito",
  curto(exigido, 100) AS "Exigido", curto(situacao_atual, 100) AS "Situação atual",
  com_republicacao(nome_do_edital(orgao, numero), contado_no_numero) AS "Edital", uf AS "UF", pncp_url AS "PNCP"
FROM pendencias_habilitacao
WHERE em_andamento AND situacao_sessao = 'futura' AND cor = 'vermelho' [[AND chave(uf) = chave({{uf}})]]
ORDER BY data_sessao_dia, edital_id, ordinal
LIMIT 50
