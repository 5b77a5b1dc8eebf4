// A tree as SVG whose words can be chosen by mouse and keyboard.
//
// All texts are set by textContent: what is in a form is never read as markup.

import { BEND, FONT, PIN, SMALL, layOut } from "./layout.js";

const NS = "http://www.w3.org/2000/svg";
const DRAG = 5; // pixels after which a press is a drag
const ROOT_ZONE = 26; // pixels at the top of a drawing where a drag means the root
let ids = 0;

/** An element of SVG with attributes and a text. */
export function shape(name, attributes = {}, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** How strong a line is drawn; that of probability 0 has a contrast of 3 and can be seen. */
export const shadeOf = probability => (0.5 + 0.5 * probability).toFixed(2);
export const rounded = p => (p < 0.0005 && p > 0 ? "< 0.001" : p.toFixed(3));

/**
 * Draw one tree.
 *
 * tree: {words, rows, spans, arcs}; words: [{form, about}], about: said by screen readers after the
 * form. arcs: [{head, modifier, label, probability, labelProbability, isFixed, differs: "" | "head"
 * | "label", note}]. title: of the drawing. can: {explain, fix}. on: {explain(word), fix(word,
 * head), free(word), say(text)}.
 * Returns: the element; its method `focusWord(word)` moves the focus to a word, from 1.
 */
export function drawing({ words, rows, spans, arcs, title, can, on }) {
  const forms = words.map(word => word.form);
  const layout = layOut({ forms, rows, spans, arcs });
  const { width, height, foot } = layout;
  const svg = shape("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title,
    direction: layout.isMirrored ? "rtl" : "ltr",
    class: arcs.some(arc => arc.probability !== null) ? "tree shaded" : "tree",
  });
  const lines = layout.arcs.map(arcShape);
  const holders = layout.words.map((place, w) => wordShape(place, w));
  const preview = shape("path", { class: "preview", d: "" });
  const rootZone = shape("g", { class: "root-zone" });
  rootZone.append(
    shape("rect", { x: 1, y: 1, width: width - 2, height: ROOT_ZONE - 2, rx: 4 }),
    shape("text", { x: width / 2, y: 16, "font-size": SMALL }, "root"));
  svg.append(...lines, ...layout.spans.flatMap(spanShapes), ...holders, rootZone, preview);

  function wordShape(place, w) {
    const id = `word-${++ids}`;
    const holder = shape("g", {
      class: "word", role: "button", tabindex: w ? -1 : 0, id,
      "aria-label": `${forms[w]}, ${words[w].about}`, "data-word": w + 1,
    });
    holder.append(shape("rect", {
      class: "hit", x: place.x - place.room / 2 - 4, y: foot + 1, width: place.room + 8,
      height: layout.bottom - foot + 1, rx: 4,
    }));
    holder.append(shape("text", { x: place.x, y: place.y, "font-size": FONT }, place.text));
    for (const row of layout.rows) {
      const { x, y, text } = row[w];
      holder.append(shape("text", { class: "small", x, y, "font-size": SMALL }, text));
    }
    return holder;
  }

  // The focus: one word of a drawing is reached by Tab, the others by arrow keys.
  function focusWord(word) {
    holders.forEach((holder, w) => holder.setAttribute("tabindex", w === word - 1 ? 0 : -1));
    holders[word - 1]?.focus();
  }
  const wordOf = target => Number(target.closest?.(".word")?.dataset.word ?? 0);
  const mark = (word, name, isOn) => {
    for (const k of arcs.keys()) {
      if (arcs[k].modifier === word) lines[k].classList.toggle(name, isOn);
    }
  };
  for (const [begin, end] of [["focusin", "focusout"], ["pointerover", "pointerout"]]) {
    svg.addEventListener(begin, event => mark(wordOf(event.target), "active", true));
    svg.addEventListener(end, event => mark(wordOf(event.target), "active", false));
  }

  // Choosing a head: `chosen` is the head that would be fixed, null for none yet.
  let choice = null;
  function show(word, head, x, y) {
    const from = layout.words[word - 1];
    holders.forEach((holder, w) => holder.classList.toggle("candidate", w + 1 === head));
    rootZone.classList.toggle("candidate", head === 0);
    svg.classList.add("choosing");
    const to = head ? layout.words[head - 1] : { x: from.x };
    const [endX, endY] = head === null ? [x, y] : [to.x, head ? foot : ROOT_ZONE];
    const top = Math.max(ROOT_ZONE, foot - 30);
    preview.setAttribute("d", head
      ? `M${endX},${endY}V${top + BEND}Q${endX},${top} ${(endX + from.x) / 2},${top}`
        + `T${from.x},${top + BEND}V${foot}`
      : `M${endX},${endY}L${from.x},${foot}`);
  }
  function hide() {
    choice = null;
    preview.setAttribute("d", "");
    svg.classList.remove("choosing");
    rootZone.classList.remove("candidate");
    holders.forEach(holder => holder.classList.remove("candidate"));
  }
  const nameOf = head => (head ? `${forms[head - 1]} (${head})` : "the root (0)");
  function choose(word, head) {
    choice = { word, head };
    show(word, head);
    on.say(`Head of ${forms[word - 1]}: ${nameOf(head)}. Enter fixes it, Escape cancels.`);
    const at = head ? holders[head - 1] : rootZone;
    at.scrollIntoView?.({ block: "nearest", inline: "nearest" });
  }
  function fix(word, head) {
    hide();
    on.fix(word, head);
  }
  /** The word to the left or right of another, that must not be `but`. */
  function beside(word, step, but) {
    for (let w = word + step; w >= 1 && w <= words.length; w += step) if (w !== but) return w;
    return word;
  }

  svg.addEventListener("keydown", event => {
    const word = wordOf(event.target);
    if (!word || event.ctrlKey || event.altKey || event.metaKey) return;
    const forward = layout.isMirrored ? -1 : 1;
    const step = { ArrowLeft: -forward, ArrowRight: forward }[event.key];
    const [first, last] = [beside(0, 1, choice?.word), beside(words.length + 1, -1, choice?.word)];
    let isUsed = true;
    if (choice) {
      const { head } = choice;
      if (step) choose(word, head ? beside(head, step, word) : step > 0 ? first : last);
      else if (event.key === "ArrowUp") choose(word, 0);
      else if (event.key === "ArrowDown") choose(word, head || beside(word, -1, word) || first);
      else if (event.key === "Home") choose(word, first);
      else if (event.key === "End") choose(word, last);
      else if (event.key === "Enter") fix(word, head);
      else if (event.key === "Escape") {
        hide();
        on.say("The head was not changed.");
      } else isUsed = event.key === " ";
    } else if (step) focusWord(beside(word, step));
    else if (event.key === "Home") focusWord(1);
    else if (event.key === "End") focusWord(words.length);
    else if (event.key === "Enter" || event.key === " ") can.explain && on.explain(word);
    else if (event.key === "h" && can.fix) {
      const now = arcs.find(arc => arc.modifier === word)?.head ?? 0;
      choose(word, now);
    } else if (event.key === "r" && can.fix) fix(word, 0);
    else if (event.key === "Delete" || event.key === "Backspace") on.free(word);
    else isUsed = false;
    if (isUsed) event.preventDefault();
  });
  svg.addEventListener("focusout", () => choice && hide());

  // A mouse or pen drags; a finger scrolls, and fixes heads in the panel below.
  let press = null;
  svg.addEventListener("pointerdown", event => {
    const word = wordOf(event.target);
    if (!word || event.button !== 0) return;
    press = { word, x: event.clientX, y: event.clientY, isDrag: false, head: null };
    if (event.pointerType === "touch" || !can.fix) press.isTap = true;
  });
  svg.addEventListener("pointermove", event => {
    if (!press || press.isTap) return;
    const isFar = Math.hypot(event.clientX - press.x, event.clientY - press.y) > DRAG;
    if (!press.isDrag && !isFar) return;
    if (!press.isDrag) {
      press.isDrag = true;
      svg.setPointerCapture(event.pointerId); // a drag may leave the drawing
    }
    const box = svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    press.head = headAt(x, y, press.word);
    show(press.word, press.head, x, y);
    event.preventDefault();
  });
  function headAt(x, y, word) {
    if (y < ROOT_ZONE) return 0;
    if (y < foot - 12 || y > height + 12) return null;
    const distance = w => Math.abs(layout.words[w].x - x) - layout.words[w].room / 2;
    let best = 0;
    for (let w = 1; w < words.length; w++) if (distance(w) < distance(best)) best = w;
    return best + 1 === word ? null : best + 1;
  }
  let wasDrag = false; // the click that ends a drag explains nothing
  svg.addEventListener("pointerup", () => {
    const ended = press;
    press = null;
    wasDrag = Boolean(ended?.isDrag);
    if (!wasDrag) return;
    setTimeout(() => { wasDrag = false; });
    hide();
    if (ended.head !== null) on.fix(ended.word, ended.head);
  });
  svg.addEventListener("pointercancel", () => {
    press = null;
    hide();
  });
  svg.addEventListener("click", event => {
    const word = wordOf(event.target);
    if (!word || wasDrag) return;
    focusWord(word);
    if (can.explain) on.explain(word);
  });

  svg.focusWord = focusWord;
  return svg;
}

function arcShape({ h, m, foot, top, label, ...arc }) {
  const kind = ["arc", arc.differs && `differs-${arc.differs}`, arc.isFixed && "fixed",
    h === null && "root"].filter(Boolean).join(" ");
  const group = shape("g", { class: kind });
  group.append(shape("title", {}, arc.note));
  const isShaded = arc.probability !== null;
  const shade = isShaded ? shadeOf(arc.probability) : 1;
  let d = `M${m},${top}V${foot - 4}`;
  if (h !== null) {
    const turn = m > h ? BEND : -BEND;
    d = `M${h},${foot}V${top + BEND}Q${h},${top} ${h + turn},${top}`
      + `H${m - turn}Q${m},${top} ${m},${top + BEND}V${foot - 4}`;
  }
  // A wide line that is not seen, so that the note is easy to point at.
  group.append(shape("path", { class: "reach", d }));
  group.append(shape("path", { class: "line", d, "stroke-opacity": isShaded ? shade : 0.55 }));
  group.append(shape("path", {
    class: "tip", d: `M${m},${foot}l-3.5,-7h7z`, "fill-opacity": shade,
  }));
  const start = label.x - (label.width + (arc.isFixed ? PIN : 0)) / 2;
  if (arc.isFixed) {
    const [x, y] = [start + 4, label.y - 6];
    group.append(shape("path", {
      class: "pin", d: `M${x},${y + 7}V${y + 2}M${x - 3},${y + 2}h6l-1,-2v-3h-4v3z`,
    }));
  }
  group.append(shape("text", {
    x: label.x + (arc.isFixed ? PIN / 2 : 0), y: label.y, "font-size": SMALL, direction: "ltr",
  }, label.text));
  return group;
}

function spanShapes({ left, right, y, text }) {
  return [
    shape("path", { class: "span", d: `M${left},${y}v4H${right}v-4` }),
    shape("text", { class: "small", x: (left + right) / 2, y: y + 16, "font-size": SMALL }, text),
  ];
}
