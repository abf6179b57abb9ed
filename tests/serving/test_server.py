"""The socket that servers listen at."""

import socket

from adacsl.serving.server import _bound


def test_answers_do_not_wait_for_acknowledgements():
    with _bound("127.0.0.1", 0) as own:
        own.listen()
        with socket.create_connection(own.getsockname()):
            accepted, _ = own.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
