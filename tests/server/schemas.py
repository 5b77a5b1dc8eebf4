"""A check of values against the part of JSON Schema that the description uses."""

from typing import Any

_TYPES = {
    "string": str, "object": dict, "array": list, "boolean": bool, "integer": int,
    "number": (int, float), "null": type(None),
}  # fmt: skip
_KNOWN = {
    "type", "properties", "required", "additionalProperties", "items", "minimum", "maximum", "enum",
    "default", "$ref",
}  # fmt: skip


def faults(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "") -> list[str]:
    """The faults of a value, a line each."""
    assert set(schema) <= _KNOWN, f"a word of JSON Schema that is not checked: {schema}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return faults(value, document["components"]["schemas"][name], document, at)
    found = []
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    is_flag = isinstance(value, bool) and "boolean" not in kinds
    if kinds and (is_flag or not any(isinstance(value, _TYPES[kind]) for kind in kinds)):
        return [f"{at}: {value!r} is no {kinds}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: {value!r}")
    if isinstance(value, (int, float)):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        found += [] if low <= value <= high else [f"{at}: {value}"]
    if isinstance(value, list):
        for i, each in enumerate(value):
            found += faults(each, schema.get("items", {}), document, f"{at}[{i}]")
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        found += [f"{at}: no {name}" for name in schema.get("required", []) if name not in value]
        for name, each in value.items():
            if name not in properties and others is False:
                found.append(f"{at}: {name} is not described")
            elif name in properties or isinstance(others, dict):
                found += faults(each, properties.get(name, others), document, f"{at}.{name}")
    return found
