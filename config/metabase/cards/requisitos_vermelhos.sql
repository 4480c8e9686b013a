-- Requisitos vermelhos
-- Requisitos de habilitação que a empresa não atende, em editais em andamento com sessão por vir.
SELECT count(*) AS "Requisitos"
FROM pendencias_habilitacao
WHERE em_andamento AND situacao_sessao = 'futura' AND cor = 'vermelho' [[AND chave(uf) = chave({{uf}})]]
