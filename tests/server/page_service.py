"""The JSON interface of `serve` for tests of its page, by a real parser and the standard library.

What is asked for twice is computed twice, in threads of this process.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import gpuparse
from gpuparse.api.parsing import SentenceParser
from gpuparse.api.results import Parsed, ParsedSentence
from gpuparse.data.arc_layout import Arc, lay_out
from gpuparse.data.svg import svg_tree
from gpuparse.data.tikz import tikz_of_layout
from gpuparse.errors import GpuparseError

PAGE = Path(gpuparse.__file__).parent / "server" / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
ABILITIES = ("text", "probabilities", "kbest", "keep_heads", "explain")


@contextmanager
def page_service(model: Path) -> Iterator[str]:
    """The address of a service with this model, until the context ends."""
    parser = gpuparse.load(model, threads=1)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(parser))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(parser: SentenceParser) -> type[BaseHTTPRequestHandler]:
    answers = {"/api/parse": _parse, "/api/explain": _explain, "/api/draw": _draw}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            files = {f"/page/{file.name}": file for file in PAGE.iterdir()}
            files["/"] = PAGE / "index.html"
            path = self.path.partition("?")[0]
            if path in files:
                self.answer(200, files[path].read_bytes(), KINDS[files[path].suffix])
            elif path == "/api/models":
                self.answer_json(200, _models(parser))
            else:
                self.answer_json(404, _error(404, "There is no such page."))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                self.answer_json(200, answers[self.path](parser, asked))
            except GpuparseError as error:
                self.answer_json(422, _error(422, str(error)))

        def answer_json(self, status: int, value: object) -> None:
            self.answer(status, json.dumps(value).encode(), "application/json")

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"status": status, "code": "error", "message": message, "where": None}}


def _models(parser: SentenceParser) -> dict[str, Any]:
    model = {
        "name": "english", "language": "en", "description": "Toy sentences, Apache-2.0",
        "stages": ["tokenizer", "tagger", "lemmatizer", "parser"], "relations": parser.labels,
        "decoder": parser.decoder, "graphs": False, "can": dict.fromkeys(ABILITIES, True),
    }  # fmt: skip
    limits = {"bytes": 100_000, "words": 5_000, "kbest": 8, "seconds": 30}
    return {"default": "english", "models": [model], "limits": limits}


def _parse(parser: SentenceParser, asked: dict[str, Any]) -> dict[str, Any]:
    parsed = _parsed(parser, asked)
    sentences = [_sentence(sentence, n) for n, sentence in enumerate(parsed, 1)]
    return {"model": "english", "sentences": sentences, "conllu": parsed.to_conllu()}


def _explain(parser: SentenceParser, asked: dict[str, Any]) -> dict[str, Any]:
    sentence = _given(parser, asked)[asked["sentence"] - 1]
    reasons = parser.explain(
        sentence.to_conllu(), asked["word"], instead=asked.get("instead"), keep="tags"
    )
    return {"reasons": reasons.to_dict(), "text": str(reasons)}


def _draw(parser: SentenceParser, asked: dict[str, Any]) -> dict[str, Any]:
    drawings = []
    for each in _parsed(parser, asked):
        if asked["format"] == "svg":
            drawings.append(svg_tree(each.words, each.heads, each.deprels))
        else:
            arcs = zip(each.heads, each.deprels or [], strict=True)
            layout = lay_out(each.words, [Arc(h, m, label) for m, (h, label) in enumerate(arcs, 1)])
            drawings.append(tikz_of_layout(layout))
    return {"drawings": drawings}


def _given(parser: SentenceParser, asked: dict[str, Any], **options: Any) -> Parsed:
    if "text" in asked:
        return parser.parse_text(asked["text"], **options)
    return parser.parse(asked.get("conllu") or asked["sentences"], **options)


def _parsed(parser: SentenceParser, asked: dict[str, Any]) -> Parsed:
    kbest = asked.get("kbest", 1)
    options: dict[str, Any] = {"probabilities": asked.get("probabilities", False)}
    options["kbest"] = kbest if kbest > 1 else None
    if not asked.get("heads"):
        return _given(parser, asked, **options)
    fixed = {(at["sentence"], at["word"]): at["head"] for at in asked["heads"]}
    lines = []
    for number, sentence in enumerate(_given(parser, asked), 1):
        for line in sentence.to_conllu().split("\n"):
            columns = line.split("\t")
            if columns[0].isdecimal():
                columns[6] = str(fixed.get((number, int(columns[0])), "_"))
                columns[7] = "_"
            lines.append("\t".join(columns))
    return parser.parse("\n".join(lines), keep_heads=True, keep="tags", **options)


def _sentence(sentence: ParsedSentence, number: int) -> dict[str, Any]:
    text, tokens, multiword = "", [], []
    for line in sentence.to_conllu().split("\n\n")[0].split("\n"):
        if line.startswith("# text = "):
            text = line.removeprefix("# text = ")
        columns = line.split("\t")
        if "-" in columns[0] and len(columns) == 10:
            first, last = map(int, columns[0].split("-"))
            multiword.append({"first": first, "last": last, "form": columns[1]})
        if columns[0].isdecimal():
            m = len(tokens)
            lemma, upos, xpos = (None if c == "_" else c for c in columns[2:5])
            tokens.append({
                "id": m + 1, "form": columns[1], "lemma": lemma, "upos": upos, "xpos": xpos,
                "head": sentence.heads[m],
                "deprel": sentence.deprels[m] if sentence.deprels else None,
                "probability": _at(sentence.probabilities, m),
                "deprel_probability": _at(sentence.deprel_probabilities, m),
            })  # fmt: skip
    trees = [tree._asdict() for tree in sentence.trees]
    return {"id": str(number), "text": text, "tokens": tokens, "multiword": multiword,
            "trees": trees}  # fmt: skip


def _at(numbers: list[float] | None, place: int) -> float | None:
    return None if numbers is None else numbers[place]
