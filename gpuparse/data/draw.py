"""A dependency tree as text for the terminal, one word per line; tables and lines as text.

      ╭──► The  det
      ├──► old  amod
    ╭─┴──► man  nsubj
    ├───── saw  root
    │ ╭──► a    det
    ╰─┴──► cat  obj

Each head has one vertical line, further left than those of its modifiers; a branch with an arrow
leads from it to each modifier. If a branch passes behind the line of another head, the arcs cross.
"""

import unicodedata
from collections.abc import Sequence

WIDTH = 100  # characters of a line
STEP = 2  # characters from one upright line to the next
GAP = "  "  # between words and labels
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
# Where lines meet: does one come from above, below, the left? All go on to the right.
JOINTS = {
    (False, True, False): "╭",
    (True, False, False): "╰",
    (True, True, False): "├",
    (False, True, True): "┬",
    (True, False, True): "┴",
    (True, True, True): "┼",
}


def draw_tree(
    forms: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    *,
    width: int = WIDTH,
) -> str:
    """Draws a tree with one word per line: arcs at the left, relations at the right.

    Args:
        forms: (n,) the words.
        heads: (n,) head of each word, 1..n; 0 for a root, below 0 for a word without a head.
        labels: (n,) relations.
        width: characters a line may take on the screen. Long words are cut. If the tree is too
            deep, arcs from the outermost heads are written out as `← number word`.
    Returns: n lines, without a line feed after the last.
    Raises: ValueError where heads have a cycle or lead out of the sentence, or lengths differ.
    Cost: n times the depth of the tree.
    """
    n = len(forms)
    if len(heads) != n or (labels is not None and len(labels) != n):
        raise ValueError("forms, heads and labels must be of one length")
    tree = [int(head) for head in heads]
    words = [printable(form) for form in forms]
    levels = _levels(tree)
    deepest = min(max(levels, default=0), max(1, (width // 2 - 2) // STEP))
    arcs = _draw_arcs(tree, levels, deepest)
    notes = [printable(label) for label in labels or [""] * n]
    for i, h in enumerate(tree):
        if h > 0 and levels[h - 1] > deepest:
            notes[i] = f"{notes[i]} ← {h} {words[h - 1]}".strip()
    room = max(width - (STEP * deepest + 3), 1)
    if any(notes):
        room = max((room - len(GAP)) * 2 // 3, 1)
    word_room = min(max(map(display_width, words), default=0), room)
    lines = []
    for arc, word, note in zip(arcs, words, notes, strict=True):
        cut = _cut(word, word_room)
        line = f"{arc} {cut}{' ' * (word_room - display_width(cut))}{GAP}"
        lines.append((line + _cut(note, max(width - display_width(line), 1))).rstrip())
    return "\n".join(lines)


def display_width(text: str) -> int:
    """Columns that the text takes in a terminal: two for wide characters, none for combining."""
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def printable(text: str) -> str:
    """The text without characters that move the cursor or change the writing direction."""
    return "".join(
        UNPRINTABLE
        if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
        or "\u202a" <= c <= "\u202e"
        or "\u2066" <= c <= "\u2069"
        else c
        for c in text
    )


def _cut(text: str, room: int) -> str:
    """The text, or as much of it as fits with an ellipsis."""
    if display_width(text) <= room:
        return text
    kept, used = "", 1
    for character in text:
        used += _character_width(character)
        if used > room:
            break
        kept += character
    return kept + "…"


def _levels(heads: list[int]) -> list[int]:
    """For each word the place of its upright line, 1 next to the words; 0 for words without one.

    A head's line lies further left than those of its modifiers, and lines beside each other never
    share a row.
    """
    n = len(heads)
    modifiers: list[list[int]] = [[] for _ in range(n + 1)]
    for m, h in enumerate(heads, 1):
        if h > n:
            raise ValueError(f"head {h} of word {m} is not in the sentence of {n} words")
        modifiers[max(h, 0)].append(m)
    from_the_top = modifiers[0][:]
    for v in from_the_top:  # grows as it goes: heads before their modifiers
        from_the_top.extend(modifiers[v])
    if len(from_the_top) < n:
        raise ValueError("the heads form a cycle")
    levels = [0] * (n + 1)
    taken: list[list[bool]] = [[]]  # taken[level][row]
    for h in reversed(from_the_top):
        if not modifiers[h]:
            continue
        first, last = min(h, modifiers[h][0]), max(h, modifiers[h][-1])
        level = 1 + max(levels[m] for m in modifiers[h])
        while level < len(taken) and any(taken[level][first : last + 1]):
            level += 1
        if level == len(taken):
            taken.append([False] * (n + 1))
        taken[level][first : last + 1] = [True] * (last + 1 - first)
        levels[h] = level
    return levels[1:]


def _draw_arcs(heads: list[int], levels: list[int], deepest: int) -> list[str]:
    """The part of each line that is left of the word; lines at levels above `deepest` are left out.

    Row and column of the grid count from 0; the line of level k is in column (deepest - k) * STEP.
    """
    n = len(heads)
    columns = deepest * STEP + 1
    grid = [[" "] * columns for _ in range(n)]
    first, last = list(range(n)), list(range(n))
    for m, h in enumerate(heads):
        if h > 0:
            first[h - 1], last[h - 1] = min(first[h - 1], m), max(last[h - 1], m)
    for h in range(n):
        if 0 < levels[h] <= deepest:
            for row in range(first[h], last[h] + 1):
                grid[row][(deepest - levels[h]) * STEP] = "│"
    for m in range(n):
        h = heads[m] - 1
        drawn = h >= 0 and levels[h] <= deepest
        own = (deepest - levels[m]) * STEP if 0 < levels[m] <= deepest else columns
        start = (deepest - levels[h]) * STEP if drawn else own
        for column in range(start + 1, columns):
            if grid[m][column] == " ":
                grid[m][column] = "─"
        if drawn:
            grid[m][start] = JOINTS[first[h] < m, m < last[h], False]
        if own < columns:
            grid[m][own] = JOINTS[first[m] < m, m < last[m], drawn]
        elif start == columns:
            grid[m][-1] = " "
        grid[m].append("►" if drawn else ("─" if own < columns else " "))
    return ["".join(row) for row in grid]


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Rows as lines, columns one below the other.

    Args: width: columns of a line; the last cell of a longer one is wrapped.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    left = sum(widths[:-1]) + 2 * (len(widths) - 1)
    lines = []
    for *row, last in cells:
        start = "".join(
            cell + " " * (room + 2 - display_width(cell))
            for cell, room in zip(row, widths[:-1], strict=True)
        )
        for text in [last] if width is None else wrapped(last, max(width - left, WIDTH // 3)):
            lines.append((start + text).rstrip())
            start = " " * left
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns; a longer word has its own line."""
    lines = [""]
    for word in printable(text).split(" "):
        if lines[-1] and display_width(f"{lines[-1]} {word}") > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
