"""An explanation as text and as plain data for JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from gpuparse.data.draw import WIDTH, aligned, wrapped
from gpuparse.features.phrases import Clause
from gpuparse.model.explain import Choice, Explanation, TemplateChange

SHOWN = 10  # reasons, and words left out


def as_dict(found: Explanation) -> dict[str, object]:
    """The explanation for JSON; the tree and its lines have their differences."""
    made = asdict(found)
    if (tree := found.tree) is not None:
        made["tree"] |= {"difference": tree.score - tree.other_score, "nats": tree.nats}
        for given, line in zip(made["tree"]["lines"], tree.lines, strict=True):
            given["difference"] = line.difference
            given["nats"] = line.difference * tree.scale
            given["because"] = _because(line, tree, found)
    return made


def as_text(found: Explanation, *, templates: bool = False) -> str:
    """The explanation in words and tables.

    Args: templates: all templates with their weights in place of reasons in words.
    """
    texts = [line for text in _introduction(found) for line in wrapped(text, WIDTH)]
    head, other = _named(found, found.head), _named(found, found.other_head)
    if found.tree is not None:
        title = f"Why this head: {head} rather than {other}, {found.tree.nats:+.2f} nats in all"
        rows = _rows(found.tree, found) if templates else _reasons(found.tree, found)
        texts += ["", *wrapped(title, WIDTH), "", *aligned(rows, None if templates else WIDTH)]
    if found.left_out:
        whole = found.left_out[0].difference + found.left_out[0].effect
        title = (
            f"Words left out in turn: the score of the arc from {head} minus that from {other} is"
            f" {whole:+.3f} nats; without a word it is less by the word's effect. Effects do not"
            " add up."
        )
        texts += ["", *wrapped(title, WIDTH), "", *aligned(_left_out_rows(found), WIDTH)]
    return "\n".join(texts)


def _reasons(choice: Choice, found: Explanation) -> list[list[str]]:
    """The parts of the difference of both scores, in words, the largest first."""
    lines = [line for line in choice.lines if line.weight or line.other_weight]
    rows = [["nats", "because"]]
    for line in lines[:SHOWN]:
        rows.append([f"{line.difference * choice.scale:+.2f}", _because(line, choice, found)])
    if others := lines[SHOWN:]:
        rest = sum(line.difference for line in others) * choice.scale
        rows.append([f"{rest:+.2f}", f"all others ({len(others)})"])
    return rows


def _because(line: TemplateChange, choice: Choice, found: Explanation) -> str:
    """The values that a template reads in both trees or in one, each of them once."""
    mine, its = _values_by_place(line.clauses), _values_by_place(line.other_clauses)
    head, other = _named(found, found.head), _named(found, found.other_head)
    if not (mine or its):
        kind = "" if line.part == "arc" else f" ({line.part})"
        own, others = (f"{w * choice.scale:+.2f}" for w in (line.weight, line.other_weight))
        text = f"{line.template}{kind}: {own} with {head}, {others} with {other}"
    elif mine and its:
        text = ", ".join(
            f"{place} {value}".strip()
            + (f" (not {its[place]})" if its.get(place, value) != value else "")
            for place, value in mine.items()
        )
    else:
        text = ", ".join(f"{place} {value}".strip() for place, value in (mine or its).items())
        text = f"only with {head if mine else other}: {text}"
    return f"of {_named(found, line.word)}: {text}" if line.word != found.word else text


def _values_by_place(times: Sequence[Sequence[Clause]]) -> dict[str, str]:
    """The values of each word that a template looks at, of all times that it fires."""
    values: dict[str, dict[str, None]] = {}
    for clauses in times:
        for place, value in clauses:
            values.setdefault(place, {})[value] = None
    return {place: ", ".join(of_place) for place, of_place in values.items()}


def _introduction(found: Explanation) -> list[str]:
    relation = f", relation {found.labels[found.word - 1]}" if found.labels else ""
    word, head, other = (_named(found, i) for i in (found.word, found.head, found.other_head))
    compared = f"The head of {word} is {head}{relation}. Compared with {other} as its head."
    lines = [" ".join(found.forms), "", compared, _probabilities(found, head, other)]
    if found.tree is None and not found.is_asked:
        lines.append("The arc from the other head scores more than those from all further heads.")
    elif found.is_asked and found.tree is not None:
        lines.append(f"The other tree is the best tree that was found with that head ({other}).")
    elif found.tree is not None:
        lines.append("The other tree is the best one found in which the word has another head.")
    if not found.is_exact:
        lines.append(f"The search of {found.decoder} does not always find the best tree.")
    return lines


def _probabilities(found: Explanation, head: str, other: str) -> str:
    given = found.probabilities
    if given is None:
        return f"The decoder {found.decoder} gives no probabilities."
    said = f"Probability of {head}: {given.head:.4f}, of {other}: {given.other_head:.4f}"
    if given.relation is not None and found.labels:
        name = found.labels[found.word - 1]
        said += f"; of the relation {name}, if the head is right: {given.relation:.4f}"
    return said + ("." if given.is_calibrated else " (not calibrated).")


def _named(found: Explanation, node: int) -> str:
    return f"{found.forms[node - 1]} ({node})" if node else "the root (0)"


def _rows(choice: Choice, found: Explanation) -> list[list[str]]:
    """A table of the scores, and of the templates that have weights."""
    names = (f"with {_named(found, head)}" for head in (found.head, found.other_head))
    shared, difference = str(choice.shared), choice.score - choice.other_score
    rows = [["difference", "part", "template", *names]]
    rows.append([f"{difference:+d}", "", "sum", str(choice.score), str(choice.other_score)])
    rows.append(["+0", "", "parts of both", shared, shared])
    for line in choice.lines:
        if line.weight or line.other_weight:
            of = f" of {_named(found, line.word)}" if line.word != found.word else ""
            own = _cell(line.values, line.weight), _cell(line.other_values, line.other_weight)
            rows.append([f"{line.difference:+d}", line.part + of, line.template, *own])
    return rows


def _cell(values: Sequence[str], weight: int) -> str:
    return f"{weight:+d}  {', '.join(filter(None, values))}".rstrip() if values else "-"


def _left_out_rows(found: Explanation) -> list[list[str]]:
    """A table of the words with the largest effects."""
    rows = [["effect", "without", "difference then", "head then"]]
    for each in found.left_out[:SHOWN]:
        then = [f"{each.difference:+.3f}", _named(found, each.head)]
        rows.append([f"{each.effect:+.3f}", _named(found, each.word), *then])
    return rows
