"""Graphs as lists of dictionaries, straight from the text: reading, writing, scores, cycles."""

Words = list[dict[int, str]]  # of every word its heads, in order of appearance, and their relations


def split_items(deps: str) -> list[tuple[str, str]]:
    """(head, relation) of every item."""
    return [] if deps == "_" else [tuple(item.split(":", 1)) for item in deps.split("|")]


def arcs_of(deps: str) -> dict[int, str]:
    """Arcs from words and the root; of repeated ones the first."""
    arcs: dict[int, str] = {}
    for head, relation in split_items(deps):
        if "." not in head:
            arcs.setdefault(int(head), relation)
    return arcs


def written(old: str, arcs: dict[int, str]) -> str:
    """DEPS with other arcs, its items from empty nodes kept."""
    items = [((head, 0), f"{head}:{relation}") for head, relation in arcs.items()]
    for head, relation in split_items(old):
        if "." in head:
            i, j = head.split(".")
            items.append(((int(i), int(j)), f"{head}:{relation}"))
    items.sort(key=lambda item: item[0])
    return "|".join(text for _, text in items) or "_"


def is_acyclic(words: Words) -> bool:
    """Can the words be taken away one by one, each when no head of it is left?"""
    left = set(range(1, len(words) + 1))
    while left:
        free = {m for m in left if not left.intersection(words[m - 1])}
        if not free:
            return False
        left -= free
    return True


def acyclic(words: Words, primary: list[tuple[int, str]]) -> tuple[Words, int]:
    """The order of arcs that the package documents, each arc tested on the whole graph."""
    result: Words = [{} for _ in words]
    for m, (arcs, (head, label)) in enumerate(zip(words, primary, strict=True), 1):
        if head in arcs or not arcs:
            result[m - 1][head] = arcs.get(head, label)
    headless = [m for m in range(1, len(words) + 1) if not result[m - 1]]
    others = [m for m in range(1, len(words) + 1) if m not in headless]
    n_dropped = 0
    for m in headless + others:
        for head in sorted(words[m - 1]):
            if head not in result[m - 1]:
                result[m - 1][head] = words[m - 1][head]
                if not is_acyclic(result):
                    del result[m - 1][head]
                    n_dropped += 1
    for m in headless:
        head, label = primary[m - 1]
        if not result[m - 1]:
            result[m - 1][head] = label
            if not is_acyclic(result):
                result[m - 1] = {0: label}
    return result, n_dropped


def scores(
    gold: list[Words],
    system: list[Words],
    gold_heads: list[list[int]],
    system_heads: list[list[int]],
    scored: list[list[bool]],
) -> dict[str, tuple[int, ...]]:
    """(gold, system, found, right) of every set of arcs; (correct, total) of complete sentences."""
    count = {
        name: [0, 0, 0, 0]
        for name in ("unlabelled", "labelled", "labelled_universal", "secondary",
                     "secondary_labelled")
    }  # fmt: skip
    complete, complete_labelled = [0, 0], [0, 0]
    for g, s, g_heads, s_heads, keep in zip(
        gold, system, gold_heads, system_heads, scored, strict=True
    ):
        for m in range(len(g)):
            if keep[m]:
                for this, mine, theirs, heads in (
                    (0, g[m], s[m], g_heads),
                    (1, s[m], g[m], s_heads),
                ):
                    for head, relation in mine.items():
                        same = theirs.get(head)
                        cut = same is not None and same.split(":")[0] == relation.split(":")[0]
                        for name, right in (
                            ("unlabelled", same is not None),
                            ("labelled", same == relation),
                            ("labelled_universal", cut),
                            ("secondary", same is not None),
                            ("secondary_labelled", same == relation),
                        ):
                            if "secondary" not in name or head != heads[m]:
                                count[name][this] += 1
                                count[name][2 + this] += right
        kept = [m for m in range(len(g)) if keep[m]]
        if kept:
            complete[0] += all(set(g[m]) == set(s[m]) for m in kept)
            complete_labelled[0] += all(g[m] == s[m] for m in kept)
            complete[1] += 1
            complete_labelled[1] += 1
    result = {name: tuple(numbers) for name, numbers in count.items()}
    return {**result, "complete": tuple(complete), "complete_labelled": tuple(complete_labelled)}
