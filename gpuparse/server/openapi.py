"""The description of the interface in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from gpuparse import __version__

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean", "default": False}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "integer", "minimum": 1}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT_OR_NULL = {"type": ["integer", "null"], "minimum": 0}
_PROBABILITY = {"type": ["number", "null"], "minimum": 0, "maximum": 1.000001}


def _object(properties: dict[str, Any], *, required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "additionalProperties": False,
        "required": list(properties) if required is None else required,
    }  # fmt: skip


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_WORDS = {
    "model": _TEXT, "text": _TEXT, "lines": _TEXT, "conllu": _TEXT,
    "sentences": _list(_list({"type": ["string", "object"]})),
}  # fmt: skip
_KEEP = {"keep": {"enum": [None, "tags"]}}
_PARSE = _WORDS | {"probabilities": _FLAG, "mbr": _FLAG, "kbest": _NUMBER} | _KEEP | {
    "heads": _list(_object({"sentence": _NUMBER, "word": _NUMBER, "head": _COUNT})),
}  # fmt: skip
# The fields of each request, with their schemas; a request with other fields is refused.
REQUESTS = {
    "parse": _PARSE,
    "explain": _WORDS | _KEEP
    | {"sentence": _NUMBER, "word": _NUMBER, "instead": _COUNT_OR_NULL},
    "draw": _PARSE | {"format": {"enum": ["svg", "tikz"]}},
}  # fmt: skip


def _schemas() -> dict[str, Any]:
    token = {
        "id": _NUMBER, "form": _TEXT, "lemma": _TEXT_OR_NULL, "upos": _TEXT_OR_NULL,
        "xpos": _TEXT_OR_NULL, "feats": {"type": "object", "additionalProperties": _TEXT},
        "head": _COUNT_OR_NULL, "deprel": _TEXT_OR_NULL, "start": _COUNT_OR_NULL,
        "end": _COUNT_OR_NULL,
        "space_after": {"type": "boolean"}, "probability": _PROBABILITY,
        "deprel_probability": _PROBABILITY, "tag_probability": _PROBABILITY,
    }  # fmt: skip
    multiword = {
        "first": _NUMBER, "last": _NUMBER, "form": _TEXT, "start": _COUNT_OR_NULL,
        "end": _COUNT_OR_NULL,
    }  # fmt: skip
    tree = {
        "heads": _list(_COUNT_OR_NULL), "deprels": {"type": ["array", "null"], "items": _TEXT},
        "probabilities": {"type": ["array", "null"], "items": {"type": "number"}},
        "score": {"type": ["number", "null"]}, "probability": _PROBABILITY,
    }  # fmt: skip
    can = ("text", "probabilities", "kbest", "keep_heads", "explain")
    model = {
        "name": _TEXT, "language": _TEXT_OR_NULL, "description": _TEXT_OR_NULL,
        "stages": _list(_TEXT), "relations": _list(_TEXT), "decoder": _TEXT,
        "graphs": {"type": "boolean"}, "can": _object({name: {"type": "boolean"} for name in can}),
    }  # fmt: skip
    error = {
        "status": {"type": "integer"}, "code": _TEXT, "message": _TEXT, "where": _TEXT_OR_NULL,
    }  # fmt: skip
    sentence = {
        "id": _TEXT, "text": _TEXT, "tokens": _list(_ref("Token")),
        "multiword": _list(_object(multiword)), "trees": _list(_object(tree)),
    }  # fmt: skip
    limits = {
        "bytes": _COUNT, "words": _COUNT, "sentence": _COUNT, "kbest": _COUNT,
        "seconds": {"type": "number"},
    }  # fmt: skip
    return {
        "Error": _object({"error": _object(error)}),
        "Models": _object(
            {"default": _TEXT, "models": _list(_object(model)), "limits": _object(limits)}
        ),
        "Token": _object(token),
        "Sentence": _object(sentence),
        "ParseRequest": _object(REQUESTS["parse"], required=[]),
        "ParseAnswer": _object(
            {
                "model": _TEXT,
                "sentences": _list(_ref("Sentence")),
                "conllu": _TEXT,
                "warnings": _list(_TEXT),
            }
        ),
        "ExplainRequest": _object(REQUESTS["explain"], required=["word"]),
        "ExplainAnswer": _object({"reasons": {"type": "object"}, "text": _TEXT}),
        "DrawRequest": _object(REQUESTS["draw"], required=[]),
        "DrawAnswer": _object({"drawings": _list(_TEXT)}),
    }


def description(max_bytes: int) -> dict[str, Any]:
    """The document. Args: max_bytes: of a body."""
    errors = {"default": _content("an error", "Error")}
    paths: dict[str, Any] = {
        "/api/models": {
            "get": {
                "operationId": "models", "summary": "The models and the limits",
                "responses": {"200": _content("models", "Models")} | errors,
            }
        }
    }  # fmt: skip
    posts = {
        "parse": ("Parse", "Parse text, CoNLL-U or words"),
        "explain": ("Explain", "Say why a word has its head"),
        "draw": ("Draw", "Draw the trees of parsed sentences"),
    }
    for name, (schema, summary) in posts.items():
        paths[f"/api/{name}"] = {
            "post": {
                "operationId": name,
                "summary": f"{summary}; the body has at most {max_bytes:,} bytes",
                "requestBody": _content("", f"{schema}Request") | {"required": True},
                "responses": {"200": _content("the answer", f"{schema}Answer")} | errors,
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "gpuparse", "version": __version__},
        "paths": paths,
        "components": {"schemas": _schemas()},
    }


def _content(what: str, schema: str) -> dict[str, Any]:
    content = {"content": {"application/json": {"schema": _ref(schema)}}}
    return {"description": what, **content} if what else content
