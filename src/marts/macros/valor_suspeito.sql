-- Whether a value in BRL cannot be meant: of a notice or of an item (see also `item_suspeito`). NULL is not suspect, and neither is 0, which can mean
-- that the value is secret.
CASE
  WHEN valor IS NULL THEN false
  -- Symbolic values, such as 0.01 for a secret budget.
  WHEN valor < 99999999 THEN valor < 0 OR (valor > 0 AND valor < 1)
  -- Far above any real tender, also infinity; and sentinels such as 9999999999999.99.
  ELSE valor >= 1e11 OR regexp_full_match(TRY_CAST(valor AS DECIMAL(20, 2))::VARCHAR, '9{8,}\.(00|99)')
END
