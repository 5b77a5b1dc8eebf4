// Where words, arcs and relations of a tree are, in pixels: as gpuparse/data/arc_layout.py, but
// with the widths of texts that this browser draws.
//
// Arcs whose spans overlap have different heights, and words are as far apart as the relations of
// their arcs need. At a word, the ends of arcs to the left are left of those to the right, the
// longest nearest to the middle, so that the arcs of a projective tree do not cross.

export const FONT = 15; // of words
export const SMALL = 11; // of relations and rows
export const BEND = 6; // radius of the corners of arcs
export const STEP = 22; // between the heights of arcs
export const PIN = 12; // room of the sign of a fixed head, before its relation
const END = 8; // between the ends of arcs at a word
const GAP = 16;
const MARGIN = 8;
const CLEAR = BEND + 2; // between a relation and the upright lines beside it
const ROW = 16; // height of a row below the words
const FACES = "Helvetica, Arial, sans-serif";

const pen = document.createElement("canvas").getContext("2d");
const measured = new Map();

function widthOf(text, size) {
  const key = `${size} ${text}`;
  let width = measured.get(key);
  if (width === undefined) {
    pen.font = `${size}px ${FACES}`;
    width = pen.measureText(text).width;
    if (measured.size > 20000) measured.clear(); // a page that is open for long stays small
    measured.set(key, width);
  }
  return width;
}

/** Text without characters that move the cursor or change the writing direction. */
export function printable(text) {
  return text.replace(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

/** Whether most letters are of scripts that run from right to left. */
export function runsFromRight(texts) {
  const all = texts.join("");
  const right = /[\p{sc=Hebr}\p{sc=Arab}\p{sc=Syrc}\p{sc=Thaa}\p{sc=Nkoo}\p{sc=Adlm}\p{sc=Samr}]/gu;
  const fromRight = (all.match(right) ?? []).filter(each => /\p{L}/u.test(each)).length;
  return fromRight > (all.match(/\p{L}/gu) ?? []).length - fromRight;
}

/**
 * The places of a tree.
 *
 * forms: the words. rows: lists of texts below them. spans: [{first, last, form}], tokens of
 * several words. arcs: [{head, modifier, label, isFixed}], head 0 for the root.
 */
export function layOut({ forms, rows, spans, arcs }) {
  const n = forms.length;
  const words = forms.map(printable);
  const small = rows.map(row => row.map(printable));
  const labels = arcs.map(arc => printable(arc.label ?? ""));
  const rooms = arcs.map((arc, k) =>
    widthOf(labels[k], SMALL) + (arc.isFixed ? PIN : 0) + 2 * CLEAR);
  const ends = arcs.map(({ head, modifier }) =>
    [Math.min(head || modifier, modifier) - 1, Math.max(head || modifier, modifier) - 1]);
  const levels = levelsOf(arcs, ends);
  const offset = offsetsOf(arcs, levels, n);
  const walls = arcs.map((_, k) => wallsOf(k, ends, levels, offset));

  const slots = words.map((word, w) => Math.max(
    widthOf(word, FONT), FONT, END * offset.count(w), ...small.map(row => widthOf(row[w], SMALL))));
  arcs.forEach((arc, k) => {
    if (arc.head) return;
    const w = arc.modifier - 1;
    slots[w] = Math.max(slots[w], rooms[k] - 2 * CLEAR + 2 * Math.abs(offset.at(w, k)));
  });
  const tokens = spans.map(span => ({ ...span, form: printable(span.form) }));
  const between = () => {
    const over = slots.map(() => []);
    walls.forEach((wall, k) => {
      const [first, left] = wall[0];
      const [last, right] = wall.at(-1);
      if (first < last) over[last].push([first, rooms[k] + left - right]);
    });
    for (const { first, last, form } of tokens) {
      const room = widthOf(form, SMALL) - (slots[first - 1] + slots[last - 1]) / 2;
      if (first < last) over[last - 1].push([first - 1, room]);
    }
    const places = [];
    slots.forEach((slot, w) => {
      const before = w ? places[w - 1] + slots[w - 1] / 2 + GAP : MARGIN;
      places.push(Math.max(
        before + slot / 2, ...over[w].map(([first, room]) => places[first] + room)));
    });
    return places;
  };
  // The relation stands between two neighbouring walls: where it lacks least room, of several in
  // the middle. This moves words again.
  const guess = between();
  walls.forEach((wall, k) => {
    const at = wall.map(([word, off]) => guess[word] + off);
    let best = [Infinity, Infinity, 0];
    for (let i = 0; i + 1 < at.length; i++) {
      const lack = Math.max(rooms[k] - (at[i + 1] - at[i]), 0);
      const aside = Math.abs(at[i] + at[i + 1] - at[0] - at.at(-1));
      if (lack < best[0] || (lack === best[0] && aside < best[1])) best = [lack, aside, i];
    }
    walls[k] = wall.slice(best[2], best[2] + 2);
  });
  const places = between();

  const width = n ? Math.round(places[n - 1] + slots[n - 1] / 2 + MARGIN) : 2 * MARGIN;
  const isMirrored = runsFromRight(words);
  const across = x => Math.round(10 * (isMirrored ? width - x : x)) / 10;
  const foot = MARGIN + SMALL + STEP * Math.max(0, ...levels) + BEND;
  const base = foot + FONT + 4;
  const rowAt = i => base + 5 + SMALL + i * ROW;
  const bottom = base + 5 + small.length * ROW;
  return {
    width, isMirrored, foot, height: bottom + (tokens.length ? ROW + 6 : 0) + MARGIN, bottom,
    words: words.map((text, w) => ({ x: across(places[w]), y: base, text, room: slots[w] })),
    rows: small.map((row, i) => row.map((text, w) => ({ x: across(places[w]), y: rowAt(i), text }))),
    spans: tokens.map(({ first, last, form }) => {
      const [left, right] = [places[first - 1] - slots[first - 1] / 2,
        places[last - 1] + slots[last - 1] / 2].map(across).sort((a, b) => a - b);
      return { left, right, y: bottom + 2, text: form };
    }),
    arcs: arcs.map((arc, k) => {
      const m = places[arc.modifier - 1] + offset.at(arc.modifier - 1, k);
      let h = null;
      let middle = m;
      if (arc.head) {
        h = places[arc.head - 1] + offset.at(arc.head - 1, k);
        const [left, right] = walls[k].map(([word, off]) => places[word] + off);
        middle = Math.min(Math.max((h + m) / 2, left + rooms[k] / 2), right - rooms[k] / 2);
      }
      const top = foot - STEP * levels[k];
      const label = { x: across(middle), y: top - 4, text: labels[k],
        width: widthOf(labels[k], SMALL) };
      return { ...arc, h: h === null ? null : across(h), m: across(m), foot, top, label };
    }),
  };
}

/** Above all shorter arcs whose span overlaps; from the root, above all over the word. */
function levelsOf(arcs, ends) {
  const levels = arcs.map(() => 0);
  const order = arcs.map((_, k) => k).sort((a, b) =>
    (arcs[a].head === 0) - (arcs[b].head === 0)
    || (ends[a][1] - ends[a][0]) - (ends[b][1] - ends[b][0])
    || ends[a][0] - ends[b][0]);
  order.forEach((k, place) => {
    const [first, last] = ends[k];
    let under = 0;
    for (let i = 0; i < place; i++) {
      const [start, end] = ends[order[i]];
      const meets = first < last ? start < last && first < end : start <= first && first <= end;
      if (meets) under = Math.max(under, levels[order[i]]);
    }
    levels[k] = under + 1;
  });
  return levels;
}

/** Where an arc ends at a word, from its middle. */
function offsetsOf(arcs, levels, n) {
  const at = Array.from({ length: n }, () => []);
  arcs.forEach(({ head, modifier }, k) => {
    if (head === 0) {
      at[modifier - 1].push([0, k]);
    } else {
      at[head - 1].push([1 / (modifier - head), k]);
      at[modifier - 1].push([1 / (head - modifier), k]);
    }
  });
  const places = at.map(list => {
    // Of equal spans the higher one is outside.
    list.sort(([a, i], [b, j]) => a - b || Math.sign(-a) * levels[i] - Math.sign(-b) * levels[j]);
    return new Map(list.map(([, k], place) => [k, END * (place - (list.length - 1) / 2)]));
  });
  return { at: (word, k) => places[word].get(k), count: word => places[word].size };
}

/** The upright lines at the height of an arc, from left to right, as [word, offset]. */
function wallsOf(k, ends, levels, offset) {
  const [first, last] = ends[k];
  const crossing = [];
  levels.forEach((level, j) => {
    if (level <= levels[k]) return;
    for (const word of new Set(ends[j])) {
      if (first < word && word < last) crossing.push([word, offset.at(word, j)]);
    }
  });
  crossing.sort(([a, x], [b, y]) => a - b || x - y);
  return [[first, offset.at(first, k)], ...crossing, [last, offset.at(last, k)]];
}
