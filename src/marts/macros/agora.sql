-- The moment from which days are counted: the clock, unless the reader sets another one, for a report as of that moment:
-- SET VARIABLE editais_agora = TIMESTAMPTZ '2026-12-01 09:00:00-03'
coalesce(getvariable('editais_agora')::TIMESTAMPTZ, now())
