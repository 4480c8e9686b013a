-- Whether a session has not begun, both in local time. At midnight, only its day is known: it is not over before the day is.
sessao >= agora OR sessao = agora::DATE
