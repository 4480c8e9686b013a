-- The days until a last day before a session; -1 if the session has begun: then the deadline is over, even if its day is today.
CASE WHEN comecou AND dia >= hoje THEN -1 ELSE date_diff('day', hoje, dia) END
