"""The reasons to refuse a request: a status, a code for programs, and a message for people."""

from __future__ import annotations

from dataclasses import dataclass

from gpuparse.errors import ConfigError, DataError, GpuparseError, NoTreeError, one_line

CODES = {
    400: "bad_request", 401: "unauthorised", 403: "foreign_origin", 404: "not_found",
    405: "method_not_allowed", 413: "too_large", 415: "unsupported_type", 421: "foreign_host",
    422: "bad_input", 429: "queue_full", 431: "headers_too_large", 500: "internal",
    503: "unavailable",
}  # fmt: skip
GONE = 499  # in logs: the client has left


@dataclass(frozen=True)
class Limits:
    """The limits of a request: bytes of its body, words, seconds to its answer; and the queue.

    A request waits and is parsed in `seconds`; `queue` requests wait. sentence: words of one.
    idle_seconds: between two pieces of a body. answer_bytes: of its answer.
    """

    n_bytes: int = 16 << 20
    n_words: int = 1_000_000
    seconds: float = 60
    queue: int = 1000
    sentence: int = 1000
    idle_seconds: float = 10.0
    answer_bytes: int = 512 << 20

    def sending(self, n_bytes: int) -> float:
        """Seconds that a client has to take an answer of `n_bytes`."""
        return self.seconds + n_bytes / (1 << 20)


class RequestError(GpuparseError):
    """A request that is not answered as asked."""

    def __init__(
        self, status: int, message: str, *, code: str = "", where: str | None = None
    ) -> None:
        """
        Args:
            status: of HTTP. message: what is wrong, and what to do. code: a short name; that of the
                status if empty. where: the field that is wrong.
        """
        super().__init__(message)
        self.status, self.message, self.where = status, message, where
        self.code = code or CODES.get(status, "error")

    def body(self) -> dict[str, object]:
        """The body of the answer."""
        return {
            "error": {
                "status": self.status, "code": self.code, "message": self.message,
                "where": self.where,
            }
        }  # fmt: skip


def refusal(error: BaseException, where: str | None = None) -> RequestError:
    """The answer to a client about an error of parsing; an unexpected one is not described."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, (DataError, NoTreeError)):
        return RequestError(422, one_line(error), where=where)
    if isinstance(error, ConfigError):
        return RequestError(400, one_line(error), code="not_possible", where=where)
    if isinstance(error, GpuparseError):
        return RequestError(422, one_line(error), code="not_possible", where=where)
    return RequestError(500, "an error inside the server: its log has the place")
