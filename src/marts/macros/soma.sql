-- The sum of values in BRL; 0 without any. It adds decimals, because a sum of doubles depends on the order of the rows, which varies.
coalesce(sum(valor::DECIMAL(20, 4)), 0)::DOUBLE
