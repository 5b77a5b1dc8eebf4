"""The process: its socket, its connections, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gpuparse.errors import ConfigError, option, options_named
from gpuparse.server.answers import as_json
from gpuparse.server.app import MAX_HEADER_BYTES, Service, make_app
from gpuparse.server.refusals import RequestError

HEADER_SECONDS = 10.0  # from the first moment of a connection, or byte of a request, to its headers
KEEP_ALIVE_SECONDS = 15  # between two requests
RESERVED = 128  # descriptors that are no connections, or new ones before old ones are closed
MAX_CONNECTIONS = 4000
BACKLOG = 1024  # connections that wait in the system
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
_LONG_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*[0-9]{21,}[ \t]*\r\n", re.IGNORECASE)
AT_ONCE = 32  # connections that are accepted before the oldest are closed


class Protocol(H11Protocol):
    """HTTP with time limits for headers and for unsent bytes, and a limit of connections.

    Where there are too many connections, the one goes that has waited longest for its headers.
    """

    waiting: dict[Protocol, None]  # of all connections those without headers, the oldest first
    most: int
    header_seconds: float
    send_seconds: float  # for the rest of an answer, when all of it has been handed over

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        self._header_timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        if len(self.connections) > self.most:
            oldest = next(iter(self.waiting), None)
            (oldest or self).transport.abort()
            if oldest is None:
                return
            oldest._has_headers()
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._has_headers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; those of unfinished headers do not begin the time anew."""
        self._has_long_length = bool(_LONG_LENGTH.search(data, 0, MAX_HEADER_BYTES))
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            if self._header_timer is None and not self.transport.is_closing():
                self._wait_for_headers()
        else:
            self._has_headers()

    def handle_events(self) -> None:
        """Read requests, which get a way to end their connection."""
        super().handle_events()
        if self.scope is not None:
            self.scope["gpuparse.abort"] = self._end  # type: ignore[typeddict-unknown-key]

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request of HTTP, in JSON as all errors are."""
        error = RequestError(400, "no valid request of HTTP")
        if getattr(sys.exc_info()[1], "error_status_hint", 400) == 431:
            error = RequestError(431, f"at most {MAX_HEADER_BYTES:,} bytes of headers are read")
        elif self._has_long_length:
            error = RequestError(413, "the body is too long", code="too_many_bytes")
        self.transport.write(
            self.conn.send(
                h11.Response(
                    status_code=error.status,
                    reason=HTTPStatus(error.status).phrase.encode(),
                    headers=[("content-type", "application/json"), ("connection", "close")],
                )
            )
        )
        self.transport.write(self.conn.send(h11.Data(data=as_json(error.body()))))
        self.transport.write(self.conn.send(h11.EndOfMessage()))
        self.transport.close()
        self._expect_sent()

    def timeout_keep_alive_handler(self) -> None:
        """Close, at last without waiting for a client that takes no bytes."""
        super().timeout_keep_alive_handler()
        self._expect_sent()

    def on_response_complete(self) -> None:
        """Close where the rest of a body is not read."""
        self._expect_sent()
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.more_body:
            self.transport.close()

    def _expect_sent(self) -> None:
        """End the connection if what is written now is not taken in time."""
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.send_seconds, self._end_unsent)

    def _end_unsent(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _wait_for_headers(self) -> None:
        self.waiting[self] = None
        self._header_timer = self.loop.call_later(self.header_seconds, self._end)

    def _has_headers(self) -> None:
        self.waiting.pop(self, None)
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _end(self) -> None:
        self._has_headers()
        if not self.transport.is_closing():
            self.transport.abort()


class _Server(uvicorn.Server):
    """A server whose signals end it, and not the process; `tell` is called once they do."""

    def __init__(
        self, config: uvicorn.Config, stop: Callable[[], None], tell: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._stop, self._tell = stop, tell

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM stop it: what is under way is finished."""
        before = {
            number: signal.signal(number, self._end) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, with a longer queue in the system than asyncio accepts at once."""
        await super().startup(sockets)
        for each in sockets or []:
            each.listen(BACKLOG)
        self._tell()

    def _end(self, number: int, frame: Any) -> None:
        self._stop()
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises: ConfigError: it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(address)
            found.listen(BACKLOG)
        except OSError:
            found.close()
            raise
        return found
    except socket.gaierror as error:
        raise ConfigError(f"{option('host', host)}: {error.strerror}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"{option('port', port)}: another process listens there; choose another port, or 0"
                " for any"
            ) from error
        where = f"{option('host', host)} {option('port', port)}"
        raise ConfigError(f"{where}: {error.strerror}") from error


def address_of(listening: socket.socket) -> str:
    """The address of a socket of `listen`, as browsers take it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _most_connections() -> int:
    """The number of connections within the limit of descriptors, raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(16, min(MAX_CONNECTIONS, soft - RESERVED)) if soft > 0 else MAX_CONNECTIONS


def serve(service: Service, listening: socket.socket, tell: Callable[[str], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; then finish what is under way.

    Args: listening: of `listen`. tell: says where it listens.
    """

    class Limited(Protocol):
        waiting = {}  # noqa: RUF012 (of this server)
        most = _most_connections()
        header_seconds = HEADER_SECONDS
        send_seconds = service.limits.seconds

    address = ip_address(listening.getsockname()[0])
    if address.is_loopback:
        own = f"[{address}]" if address.version == 6 else str(address)
        service.hosts = tuple(dict.fromkeys([*LOCAL_NAMES, own, *service.hosts]))
    config = uvicorn.Config(
        make_app(service), http=Limited, ws="none", lifespan="on", log_level="error",
        access_log=False, server_header=False, proxy_headers=False, backlog=AT_ONCE,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(service.limits.seconds) + 5, log_config=None,
    )  # fmt: skip

    def stop() -> None:
        service.is_stopping = True

    def begun() -> None:
        tell(f"listening on {address_of(listening)}")

    before = sys.getswitchinterval()
    with listening, options_named(lambda name, *values: name):
        sys.setswitchinterval(0.001)
        try:
            _Server(config, stop, begun).run(sockets=[listening])
        finally:
            sys.setswitchinterval(before)
