"""`moto.server`, which answers one request after another.

moto compares and writes in two steps. With its threads side by side, two of several creates that race can both win,
which no object store may allow.
"""

import threading

from moto.server import DomainDispatcherApplication, main

turn = threading.Lock()
answer = DomainDispatcherApplication.__call__


def in_turn(self, environ, start_response):
    with turn:
        return answer(self, environ, start_response)


DomainDispatcherApplication.__call__ = in_turn
main()
