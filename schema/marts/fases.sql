-- The phases of the contract, in order; a phase that the API adds later has no row here.
SELECT status, fase, fase_ordem, em_andamento
FROM (VALUES
  ('screening', 'Triagem', 1, true),
  ('analysis', 'Análise', 2, true),
  ('pricing', 'Precificação', 3, true),
  ('ready', 'Pronto', 4, true),
  ('discarded', 'Descartado', 5, false),
  ('expired', 'Vencido', 6, false)
) AS f(status, fase, fase_ordem, em_andamento)
