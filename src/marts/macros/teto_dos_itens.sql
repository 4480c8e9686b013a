-- The value of a notice as a ceiling of what its items can be worth, together too; NULL if it says nothing. One real or less is no value
-- of a notice.
CASE WHEN do_edital > 1 AND NOT valor_suspeito(do_edital) THEN do_edital END
