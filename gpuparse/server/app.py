"""The application: routes, limits, tokens, logs and figures around the two interfaces."""

from __future__ import annotations

import asyncio
import hmac
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats.names import CONLLU, LINES, RAW
from gpuparse.data.formats.names import TEXT as RAW_TEXT
from gpuparse.data.formats.objects import as_conllu, read_sentences
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, GpuparseError, NoTreeError, one_line, option
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import Job
from gpuparse.server.answers import (
    Body,
    DrawSink,
    ParseSink,
    SentenceSink,
    as_json,
    with_heads,
)
from gpuparse.server.bodies import Fields, Held, read_body, read_form, read_json
from gpuparse.server.models import TREES, WORDS, InputPiece, Placed, ServedModel, words_of
from gpuparse.server.openapi import REQUESTS, description
from gpuparse.server.refusals import GONE, Limits, RequestError, refusal
from gpuparse.server.udpipe import models_of, process_request
from gpuparse.server.worker import Recipe, Sink, Task, Worker

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE = Path(__file__).parent / "page"
MAX_K_BEST = 100  # trees of a sentence in an answer
MAX_EXPLAINED = 400  # words of a sentence
PLAIN = ParseOptions()
HELD = 8  # bodies of the greatest size that are held at once
SHORT_BODY = 1 << 16  # bytes that are read where all requests come in
EXPLAINED = 1e-7  # seconds of an explanation for the cube of the words, at most
MAX_HEADERS, MAX_HEADER_BYTES = 100, 1 << 15
TWO_LENGTHS = "two_lengths"
CHUNK = 4096  # words of Python objects that are made into a piece
_TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}  # fmt: skip
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src"
    " 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_ENCODED_HEADERS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
_INPUTS = (RAW_TEXT, LINES, CONLLU, "sentences")


@dataclass
class Service:
    """All that handlers share.

    models: by name, the default first. token: that requests need, or None. hosts: names that
    requests may have for this machine; any without them. origins: pages of other origins that may
    send requests.
    """

    models: Mapping[str, ServedModel]
    limits: Limits
    token: bytes | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    is_stopping: bool = False
    reader: ThreadPoolExecutor = field(init=False)  # of long bodies
    held: Held = field(init=False)
    worker: Worker = field(init=False)
    figures: Figures = field(init=False)

    def __post_init__(self) -> None:
        self.reader = ThreadPoolExecutor(1, "reading")
        self.held = Held(HELD * self.limits.n_bytes)
        self.worker = Worker(self.limits)
        self.figures = Figures(self.worker)

    def model(self, name: str | None) -> ServedModel:
        """A model by its name, the default for None. Raises: RequestError: there is none."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise RequestError(
                404, f"no model {one_line(name)!r}; there are {', '.join(self.models)}",
                code="no_such_model", where="model",
            )  # fmt: skip
        return self.models[name]

    async def body(self, request: Request) -> bytes:
        """The body of a request, within the limits."""
        limits = self.limits
        return await read_body(
            request, max_bytes=limits.n_bytes, idle_seconds=limits.idle_seconds,
            seconds=limits.seconds, held=self.held,
        )  # fmt: skip

    async def of_body(self, request: Request, read: Callable[..., Any], *given: Any) -> Any:
        """Read something from a body: of a long one in a thread, one after another."""
        if request.scope["gpuparse.held"] <= SHORT_BODY:
            return read(*given)
        read = partial(copy_context().run, read)
        return await asyncio.get_running_loop().run_in_executor(self.reader, read, *given)

    async def answer(
        self, request: Request, model: ServedModel, options: ParseOptions = PLAIN,
        depth: str = TREES, *, pieces: Callable[[Job], Iterator[InputPiece]] | None = None,
        sink: Sink | None = None, call: Callable[[], Body] | None = None,
        call_seconds: float = 0.0, where: str | None = None,
    ) -> Any:  # fmt: skip
        """The answer of the threads that parse.

        Args: see Task.
        Raises: RequestError. ConnectionError: the client has left.
        """
        loop = asyncio.get_running_loop()
        recipe = Recipe(model.name, options, depth, is_text=where in RAW)
        task = Task(
            model, recipe, loop, loop.create_future(),
            pieces=pieces, sink=sink, call=call, call_seconds=call_seconds, where=where,
        )  # fmt: skip
        if self.is_stopping:
            raise RequestError(503, "the server is shutting down", code="shutting_down")
        self.worker.put(task)
        left = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait(
                {task.answer, left}, timeout=self.limits.seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )  # fmt: skip
            if task.answer.done():
                request.scope["gpuparse.words"] += task.n_words
                self.figures.words.inc(task.n_words)
                return task.answer.result()
            if left.done():
                raise ConnectionError
            raise RequestError(
                503, f"no answer after {self.limits.seconds:g} seconds: send less, or try later",
                code="timeout",
            )  # fmt: skip
        finally:
            left.cancel()
            if not task.answer.done():
                self.worker.cancel(task)
                task.answer.cancel()


async def _left(request: Request) -> None:
    """Wait until the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Figures:
    """The figures of /metrics."""

    def __init__(self, worker: Worker) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("gpuparse_requests", "Requests", ["path", "status"], **own)
        self.seconds = Histogram(
            "gpuparse_request_seconds", "Seconds from request to answer", ["path"], **own
        )
        self.words = Counter("gpuparse_words", "Words in answers", **own)
        waiting = Gauge("gpuparse_waiting", "Requests that wait or are parsed", **own)
        waiting.set_function(lambda: len(worker))
        rounds = Gauge("gpuparse_rounds", "Rounds of the thread that parses", **own)
        rounds.set_function(lambda: worker.rounds)
        joined = Gauge("gpuparse_joined", "Requests in these rounds", **own)
        joined.set_function(lambda: worker.n_joined)


def make_app(service: Service, *, page: Path = PAGE) -> ASGIApp:
    """The application.

    Args: page: the folder whose files are shown; they are read now.
    """
    files = _page_files(page)
    document = as_json(description(service.limits.n_bytes))
    posts = {"parse": _parse, "explain": _explain, "draw": _draw}
    routes = [
        Route(f"/api/{name}", _endpoint(handler, service, REQUESTS[name]), methods=["POST"])
        for name, handler in posts.items()
    ]

    async def models(request: Request) -> Response:
        limits = service.limits
        return _json(
            {
                "default": next(iter(service.models)),
                "models": [model.described() for model in service.models.values()],
                "limits": {
                    "bytes": limits.n_bytes, "words": limits.n_words,
                    "sentence": limits.sentence, "kbest": MAX_K_BEST, "seconds": limits.seconds,
                },
            }
        )  # fmt: skip

    async def openapi(request: Request) -> Response:
        return Response(document, media_type="application/json")

    async def health(request: Request) -> Response:
        return _json({"status": "stopping" if service.is_stopping else "ok"})

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(service.figures.registry), media_type="text/plain")

    async def show(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in files:
            raise RequestError(404, "no such page")
        content, kind = files[name]
        return Response(content, headers={"content-type": kind, "cache-control": "no-cache"})

    async def udpipe_models(request: Request) -> Response:
        return Response(models_of(service.models), media_type="application/json")

    async def process(request: Request) -> Response:
        try:
            kind = request.headers.get("content-type", "")
            body = await service.body(request)
            query = request.scope["query_string"]
            fields = await service.of_body(request, read_form, body, kind, query)
            del body
            return _streamed(await process_request(service, request, fields))
        except GpuparseError as error:
            found = refusal(error)
            status = 400 if found.status in (404, 415, 422) else found.status
            return PlainTextResponse(found.message, status, headers=_error_headers(found))

    routes += [
        Route("/process", process, methods=["GET", "POST"]),
        Route("/api/models", models), Route("/api/openapi.json", openapi), Route("/health", health),
        Route("/metrics", metrics), Route("/", show), Route("/page/{name}", show),
        Route("/models", udpipe_models, methods=["GET", "POST"]),
    ]  # fmt: skip

    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        service.worker.start()
        yield
        service.is_stopping = True
        await asyncio.to_thread(service.worker.stop)
        service.reader.shutdown()

    handlers: Any = {RequestError: _refuse, HTTPException: _refuse_http}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # a redirect would lead to the host of the request
    shown = {"/", *(f"/page/{name}" for name in files)}
    watched = _Watched(app, service, {route.path for route in routes}, shown)
    if not service.origins:
        return watched
    return CORSMiddleware(
        watched, allow_origins=service.origins, allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type"],
    )  # fmt: skip


def _json(value: object) -> Response:
    return Response(as_json(value) + b"\n", media_type="application/json")


def _streamed(body: Body) -> Response:
    headers = {"content-type": "application/json", "content-length": str(body.n_bytes)}
    blocks = body.blocks()
    if body.n_bytes <= 1 << 18:
        return Response(b"".join(blocks), headers=headers)

    async def pieces() -> Any:
        for block in blocks:
            yield block

    return StreamingResponse(pieces(), headers=headers)


def _error_headers(error: RequestError) -> dict[str, str]:
    status = error.status
    headers = {"retry-after": "1"} if status in (429, 503) else {}
    if status in (408, 413, 429, 431) or error.code == TWO_LENGTHS:  # the rest is not read
        headers["connection"] = "close"
    return headers | ({"www-authenticate": "Bearer"} if status == 401 else {})


async def _refuse(request: Request, error: Any) -> Response:
    found = refusal(error)
    return JSONResponse(found.body(), found.status, headers=_error_headers(found))


async def _refuse_http(request: Request, error: Any) -> Response:
    messages = {404: "no such path", 405: "the path does not take this method"}
    found = RequestError(error.status_code, messages.get(error.status_code, str(error.detail)))
    return JSONResponse(found.body(), found.status, headers=error.headers)


def _endpoint(handler: Any, service: Service, known: Collection[str]) -> Any:
    """A handler of JSON, whose fields are known, as an endpoint."""

    async def answer(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(415, "send JSON with the content type application/json")
        given = await service.of_body(request, read_json, await service.body(request))
        return _streamed(await handler(service, request, Fields(given, known)))

    return answer


def _page_files(folder: Path) -> dict[str, tuple[bytes, str]]:
    """The files of a folder with known suffixes: contents and content types."""
    if not folder.is_dir():
        return {}
    return {
        path.name: (path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix in _TYPES
    }


@dataclass(frozen=True)
class _Input:
    """The words of a request. field: that has them."""

    field: str
    pieces: Callable[[Job], Iterator[InputPiece]]


def _input(model: ServedModel, fields: Fields, max_words: int) -> _Input:
    """The words that a request has; they are found by the threads that parse."""
    there = [name for name in _INPUTS if name in fields]
    if len(there) != 1:
        raise RequestError(
            400, f"expected exactly one of {', '.join(_INPUTS)}, and not {len(there)}",
            code="wrong_field", where=there[1] if there else None,
        )  # fmt: skip
    [name] = there
    if name == "sentences":
        sentences = fields.items(name)
        n_words = 0
        for number, sentence in enumerate(sentences):
            _check_sentence(fields, sentence, number)
            n_words += len(sentence)
        if n_words > max_words:
            raise RequestError(
                413, f"{n_words:,} words, and at most {max_words:,} are parsed: send them in"
                " several requests", code="too_many_words", where=name,
            )  # fmt: skip
        return _Input(name, lambda job: _of_objects(sentences))
    data = fields.text(name)
    return _Input(name, lambda job: model.pieces(data, name, name))


def _check_sentence(fields: Fields, sentence: Any, number: int) -> None:
    if not isinstance(sentence, list) or not sentence:
        raise fields.wrong("sentences", f"[{number}]: expected a list of words, not empty")
    kind = type(sentence[0])
    if kind not in (str, dict) or any(type(word) is not kind for word in sentence):
        raise fields.wrong("sentences", f"[{number}]: expected strings alone, or objects alone")


def _of_objects(sentences: list[Any]) -> Iterator[Treebank]:
    """Sentences as treebanks, some at a time."""
    first, n_words = 0, 0
    for stop, sentence in enumerate(sentences, 1):
        n_words += len(sentence)
        if n_words >= CHUNK or stop == len(sentences):
            read = read_sentences(sentences[first:stop], keep_heads=False, first=first)
            yield treebank_from_bytes(as_conllu(read, "upos", first), "sentences")
            first, n_words = stop, 0


def _keep(fields: Fields, words: _Input) -> str | None:
    """The columns of the input that are kept."""
    keep = fields.choice("keep", ("tags",))
    if keep and words.field in RAW:
        raise fields.wrong("keep", "a text has no tags")
    return keep


def _options(fields: Fields, keep: str | None, *, has_heads: bool) -> ParseOptions:
    kbest = fields.number("kbest", 1, MAX_K_BEST) or 1
    return ParseOptions(
        probabilities=fields.flag("probabilities"), mbr=fields.flag("mbr"),
        kbest=kbest if kbest > 1 else None, keep=keep, keep_heads=has_heads,
    )  # fmt: skip


def _heads(fields: Fields) -> dict[tuple[int, int], int]:
    """The heads that a request gives, by sentence and word."""
    found = {}
    for item in fields.items("heads") if "heads" in fields else []:
        if not isinstance(item, dict) or set(item) != {"sentence", "word", "head"}:
            raise fields.wrong("heads", "expected objects with sentence, word and head")
        sentence, word, head = (
            fields.checked_number("heads", item[key], least, 10**9)
            for key, least in (("sentence", 1), ("word", 1), ("head", 0))
        )
        if (sentence, word) in found:
            raise fields.wrong("heads", f"word {word} of sentence {sentence} is there twice")
        found[sentence, word] = head
    return found


def _with_heads(given: _Input, heads: dict[tuple[int, int], int]) -> _Input:
    """An input whose words have these heads."""

    def pieces(job: Job) -> Iterator[InputPiece]:
        left, n_sentences = dict(heads), 0
        for piece in given.pieces(job):
            [words] = words_of([piece], job)
            text, n_sentences = with_heads(words.data.tobytes(), left, n_sentences)
            yield Placed(treebank_from_bytes(text, given.field), getattr(piece, "character", 0))
        for sentence, word in left:
            raise RequestError(
                422, f"heads: there is no word {word} of sentence {sentence}", code="wrong_field",
                where="heads",
            )  # fmt: skip

    return _Input(given.field, pieces)


def _model(service: Service, fields: Fields) -> ServedModel:
    return service.model(fields.text("model").decode() if "model" in fields else None)


def _asked(service: Service, fields: Fields) -> tuple[ServedModel, _Input, ParseOptions]:
    """The model, the input and the options of a request."""
    model = _model(service, fields)
    heads = _heads(fields)
    given = _input(model, fields, service.limits.n_words)
    options = _options(fields, _keep(fields, given), has_heads=bool(heads))
    return model, _with_heads(given, heads) if heads else given, options


async def _parse(service: Service, request: Request, fields: Fields) -> Body:
    model, words, options = await service.of_body(request, _asked, service, fields)
    text = fields.text(RAW_TEXT) if words.field == RAW_TEXT else b""
    return await service.answer(
        request, model, options, pieces=words.pieces, sink=ParseSink(model.name, text),
        where=words.field,
    )  # fmt: skip


async def _draw(service: Service, request: Request, fields: Fields) -> Body:
    form = fields.choice("format", ("svg", "tikz")) or "svg"
    model, words, options = await service.of_body(request, _asked, service, fields)
    return await service.answer(
        request, model, options, pieces=words.pieces, sink=DrawSink(form), where=words.field
    )


async def _explain(service: Service, request: Request, fields: Fields) -> Body:
    model = _model(service, fields)
    words = await service.of_body(request, _input, model, fields, service.limits.n_words)
    keep = _keep(fields, words)
    word = fields.number("word", 1, 10**9)
    if word is None:
        raise fields.wrong("word", "is missing: give the number of a word, from 1")
    sentence = fields.number("sentence", 1, 10**9) or 1
    instead = fields.number("instead", 0, 10**9)
    text = await service.answer(
        request, model, depth=WORDS, pieces=words.pieces, sink=SentenceSink(sentence),
        where=words.field,
    )  # fmt: skip
    n = treebank_from_bytes(text, words.field).n_words
    if n > MAX_EXPLAINED:
        raise RequestError(
            422, f"a sentence of {n:,} words: at most {MAX_EXPLAINED} are explained",
            code="too_long_to_explain", where=words.field,
        )  # fmt: skip
    if word > n:
        raise fields.wrong("word", f"sentence {sentence} has words 1 to {n}")
    if instead is not None and (instead > n or instead == word):
        raise fields.wrong("instead", f"expected 0 (the root) to {n}, and not the word itself")
    call = partial(_reasons, model, text, word, instead, keep, words.field)
    return await service.answer(
        request, model, call=call, call_seconds=EXPLAINED * n**3, where=words.field
    )


def _reasons(
    model: ServedModel, text: bytes, word: int, instead: int | None, keep: str | None, where: str
) -> Body:
    try:
        reasons = model.parser.explain(text, word, instead=instead, keep=keep)
    except (ConfigError, NoTreeError) as error:
        raise refusal(error, where if instead is None else "instead") from error
    return Body(as_json({"reasons": reasons.to_dict(), "text": str(reasons)}) + b"\n")


class _Watched:
    """The application with a token, headers, a line of log, and figures."""

    def __init__(self, app: ASGIApp, service: Service, paths: set[str], shown: set[str]) -> None:
        """shown: the paths of the page, which asks for the token itself."""
        self._app, self._service, self._paths = app, service, paths
        self._open = {"/health", *shown}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, n_sent = time.monotonic(), 0, 0
        scope["gpuparse.held"] = scope["gpuparse.words"] = 0
        timer: asyncio.TimerHandle | None = None

        async def watched(message: Message) -> None:
            nonlocal status, n_sent, timer
            if message["type"] == "http.response.start":
                status = message["status"]
                if abort := scope.get("gpuparse.abort"):  # not in tests without connections
                    n_bytes = int(dict(message["headers"]).get(b"content-length", 0))
                    seconds = self._service.limits.sending(n_bytes)
                    timer = asyncio.get_running_loop().call_later(seconds, abort)
                message["headers"] = [*message["headers"], *_ENCODED_HEADERS]
            else:
                n_sent += len(message.get("body", b""))
            await send(message)

        try:
            if wrong := self._wrong(scope):
                request = Request(scope, receive)
                await (await _refuse(request, wrong))(scope, receive, watched)
            else:
                await self._app(scope, receive, watched)
        except ConnectionError:
            status = GONE
        except Exception as error:
            where = error.__traceback__
            while where and where.tb_next:
                where = where.tb_next
            line = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else ""
            _say(f"{type(error).__name__} at {line}")
            if not status:
                request = Request(scope, receive)
                await (await _refuse(request, error))(scope, receive, watched)
        finally:
            if timer is not None:
                timer.cancel()
            self._service.held.n_bytes -= scope["gpuparse.held"]
            self._tell(scope, status, n_sent, time.monotonic() - began)

    def _wrong(self, scope: Scope) -> RequestError | None:
        """Why the headers of a request are refused, if they are."""
        pairs, service = scope["headers"], self._service
        headers = dict(pairs)
        if len(pairs) > MAX_HEADERS or sum(len(k) + len(v) for k, v in pairs) > MAX_HEADER_BYTES:
            return RequestError(
                431, f"at most {MAX_HEADERS} headers of {MAX_HEADER_BYTES:,} bytes are read"
            )
        if b"content-length" in headers and b"transfer-encoding" in headers:
            message = "Content-Length and Transfer-Encoding: give one of both"
            return RequestError(400, message, code=TWO_LENGTHS)
        host, name = _host_of(headers)
        if host and service.hosts and name not in service.hosts and scope["path"] != "/health":
            return RequestError(
                421, f"the host {one_line(name)!r} is none of {', '.join(service.hosts)};"
                f" {option('host_name', 'NAME')} adds it",
            )  # fmt: skip
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin not in service.origins and origin.partition("://")[2].lower() != host:
            return RequestError(
                403, f"pages of {one_line(origin)} may not send requests;"
                f" {option('allow_origin', 'ORIGIN')} lets them",
            )  # fmt: skip
        if self._is_open(scope):
            return None
        return RequestError(401, "give the token: Authorization: Bearer TOKEN")

    def _is_open(self, scope: Scope) -> bool:
        """True if a request needs no token, or has it."""
        token = self._service.token
        if token is None or scope["path"] in self._open:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, value = given.partition(b" ")
        return hmac.compare_digest(value.strip(), token) and kind.lower() == b"bearer"

    def _tell(self, scope: Scope, status: int, n_sent: int, seconds: float) -> None:
        path = scope["path"]
        known = path if path in self._paths else "other"
        self._service.figures.requests.labels(known, str(status)).inc()
        self._service.figures.seconds.labels(known).observe(seconds)
        shown = "".join(c if "!" <= c <= "~" else "?" for c in path[:100])
        _say(
            f"{scope['method']} {shown} {status} in={scope['gpuparse.held']} out={n_sent}"
            f" words={scope['gpuparse.words']} ms={1000 * seconds:.1f}"
        )


def _host_of(headers: Mapping[bytes, bytes]) -> tuple[str, str]:
    """The host that a request names, and its name without a port."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    name, _, port = host.rpartition(":")
    return host, name if name and (not port or port.isdigit()) else host


def _say(line: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"{now} {line}", file=sys.stderr, flush=True)


__all__ = ["Limits", "Service", "make_app"]
