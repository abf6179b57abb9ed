"""Connections of the server: time limits, size limits, orderly shutdown."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from adacsl.serving import app as limits

HEAD_SECONDS = 10.0
"""Time limit for the head of a request, from the start of the connection or the end of the answer before."""
SEND_SECONDS = 60.0
"""Time limit for a client to read an answer that does not fit into the buffers."""
MARGIN = 5.0
"""Seconds that the application has to answer a body that is late, before the connection is closed."""
LAST_SECONDS = 20
"""Time limit for open requests once the server is stopping."""
ON_THE_WAY = 1.0
"""Time in which requests on open connections are still received once the server is stopping."""
CONNECTIONS = 800
"""The most open connections; for a new one, the connection that has waited longest without a request is closed."""


class Connection(H11Protocol):
    """An HTTP/1.1 connection that is closed when a request does not arrive, or its answer is not read, in time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._state: Any = None
        self.since = 0.0
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether there is no request, or not all of its head."""
        return self._state is h11.IDLE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the connection; where there are too many, close the one that has waited longest."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > CONNECTIONS:
            waiting = [one for one in self.connections if isinstance(one, Connection) and one.waits]
            min(waiting, key=lambda one: one.since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection and its timers."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        for timer in (self._receiving, self._sending):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Expect the next request."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the time limit of the part of a request that is expected now, if that has changed."""
        if self.conn.their_state is self._state:
            return
        self._state, self.since = self.conn.their_state, self.loop.time()
        if self._receiving is not None:
            self._receiving.cancel()
        allowed = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: limits.BODY_SECONDS + MARGIN}.get(self._state)
        self._receiving = None if allowed is None else self.loop.call_later(allowed, self.transport.abort)

    def pause_writing(self) -> None:
        """Start the time limit for the client to read."""
        super().pause_writing()
        self._sending = self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the time limit for the client to read."""
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request to change the protocol is answered like any other."""

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP; a request that has begun is over, and a sent answer is not repeated."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


class Server(uvicorn.Server):
    """A server that, when stopped, answers requests sent before, and closes each connection with its answer."""

    def __init__(self, app: Any, ready: Callable[[], None] = lambda: None) -> None:
        self._ready, self._app = ready, app
        super().__init__(
            uvicorn.Config(
                self._answer,
                http=Connection,
                ws="none",
                lifespan="on",
                interface="asgi3",
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=LAST_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report that the server is ready."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, answer requests that arrive on open ones, and end."""
        for server in self.servers:
            server.close()
        end = asyncio.get_running_loop().time() + ON_THE_WAY
        while self.server_state.connections and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Call the application; once the server is stopping, its answers close their connections."""
        begun = False

        async def sending(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                if self.should_exit:
                    headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != b"connection"]
                    message = {**message, "headers": [*headers, (b"connection", b"close")]}
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if begun or scope["type"] != "http" or not self.should_exit:
                raise
            text = b'{"detail":"the server is stopping: retry","errors":[]}'
            pairs = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
            await sending({"type": "http.response.start", "status": 503, "headers": [*pairs, (b"retry-after", b"1")]})
            await sending({"type": "http.response.body", "body": text})
