-- Fases em números
-- Quantidade, valor, idade e tempo na fase, em dias; o tempo na fase é o que observamos, pois o serviço não informa quando ela mudou.
SELECT fase AS "Fase", editais AS "Editais",
  editais_sessao_futura AS "Sessão futura", editais_sessao_passada AS "Sessão passada", editais_sem_sessao AS "Sem data",
  sem_valor AS "Sem valor", valor_total AS "Valor total",
  valor_mediano AS "Valor mediano", round(idade_mediana_dias, 1) AS "Idade mediana",
  round(dias_na_fase_mediana, 1) AS "Mediana na fase",
  editais - editais_censurados AS "Medidos na fase", editais_censurados AS "Já na fase na 1ª leitura"
FROM funil
ORDER BY fase_ordem, status
LIMIT 100
