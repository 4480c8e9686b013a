-- The days until a deadline; -1, as for one that is past, if it is today or later, but the session has begun.
if(situacao_sessao = 'passada' AND dias >= 0, -1, dias)
