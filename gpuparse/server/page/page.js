// The page of `gpuparse serve`: text in, trees out.

import { drawing, rounded, shadeOf, shape } from "./drawing.js";
import { runsFromRight } from "./layout.js";
import { bodyOf, call, setToken, sourceOf } from "./service.js";
import { MOST_TREES, fromFragment, toFragment } from "./state.js";

const STEP = 20; // trees that are drawn at once: browsers take long for many texts of SVG
const RAW = ["text", "lines"]; // inputs that need a tokeniser
const MOST_DRAWN = 400; // words of a sentence, as in the service: drawings take the square of it
const EXAMPLE = "She wants to see cats with telescopes. They don't know that we saw them.";
const get = id => document.getElementById(id);
const field = {
  text: get("text"), model: get("model"), input: get("input"), kbest: get("kbest"),
  probabilities: get("probabilities"),
};
let models = [];
let limits = {};
let shown = null; // {request, answer} of the trees on the page
let drawn = 0; // sentences of them
let running = null; // AbortController of the request that runs
let asking = null; // the same, of an explanation

/** An HTML element with properties and children; texts become text nodes, never markup. */
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

const say = text => { get("status").textContent = text; };

function complain(text) {
  get("error").hidden = !text;
  get("error-text").textContent = text;
}

/** Show what went wrong; where a token is needed, the field for it. */
function report(error) {
  if (!error.needsToken) {
    complain(error.message);
    return;
  }
  complain("");
  get("ask").hidden = false;
  get("ask-why").textContent = `${error.message} It is kept until this tab is closed.`;
  get("token").focus();
}

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const modelOf = name => models.find(model => model.name === name);

// ---- What is asked for --------------------------------------------------------------------------

function requestOfForm() {
  return {
    text: field.text.value, input: field.input.value, model: field.model.value,
    kbest: Number(field.kbest.value), probabilities: field.probabilities.checked,
    rows: rowsShown(), heads: [],
  };
}

const rowsShown = () => [...get("rows").querySelectorAll(":checked")].map(box => box.value);

function fillForm(request) {
  field.text.value = request.text;
  field.model.value = request.model;
  showModel();
  field.input.value = request.input;
  field.kbest.value = String(request.kbest);
  field.probabilities.checked = request.probabilities;
  for (const box of get("rows").querySelectorAll("input")) {
    box.checked = request.rows.includes(box.value);
  }
}

/** Adapt the form to what the chosen model can do. */
function showModel() {
  const model = modelOf(field.model.value);
  const parts = [`Model ${model.name}`];
  if (model.language) parts.push(`language ${model.language}`);
  if (model.description) parts.push(model.description);
  parts.push(model.stages.join(", "), `decoder ${model.decoder}`);
  if (model.graphs) parts.push("of each word one head is drawn here, in SVG and LaTeX all");
  get("about-model").textContent = `${parts.join(" · ")}.`;
  const isRaw = RAW.includes(field.input.value);
  for (const kind of RAW) field.input.querySelector(`[value=${kind}]`).disabled = !model.can.text;
  if (!model.can.text && isRaw) {
    field.input.value = model.stages.includes("tagger") ? "words" : "conllu"; // tags are needed
  }
  field.kbest.disabled = !model.can.kbest;
  if (!model.can.kbest) field.kbest.value = "1";
  field.probabilities.disabled = !model.can.probabilities;
  if (!model.can.probabilities) field.probabilities.checked = false;
}

function showLink() {
  const fragment = toFragment(shown.request);
  history.replaceState(null, "", fragment === null ? location.pathname + location.search
    : `#${fragment}`);
}

/** Parse, and show the trees; whether it went well. An earlier request is given up. */
async function parse(request, { isNew = false } = {}) {
  running?.abort();
  const mine = new AbortController();
  running = mine;
  complain("");
  say("Parsing …");
  get("result").setAttribute("aria-busy", "true");
  document.body.classList.add("busy");
  try {
    const began = performance.now();
    const answer = await call("api/parse", bodyOf(request), mine.signal);
    if (running !== mine) return false;
    const seconds = ((performance.now() - began) / 1000).toFixed(2);
    shown = { request, answer };
    const words = answer.sentences.reduce((sum, each) => sum + each.tokens.length, 0);
    const counts = [plural(answer.sentences.length, "sentence"), plural(words, "word")];
    const hints = answer.warnings.map(said => {
      const [what] = said.split("; ");
      return ` ${what}: choose “raw text, a sentence per line” above to keep them apart.`;
    });
    say(`${counts.join(", ")}, ${seconds} s.${hints.join("")}`);
    showLink();
    render(isNew ? 0 : drawn);
    return true;
  } catch (error) {
    if (running !== mine) return false; // a later request has taken its place
    say("");
    report(error);
    return false;
  } finally {
    if (running === mine) {
      running = null;
      get("result").removeAttribute("aria-busy");
      document.body.classList.remove("busy");
    }
  }
}

async function parseForm() {
  const request = requestOfForm();
  if (!request.text.trim()) {
    complain("There is no text to parse. Write some above.");
    field.text.focus();
    return;
  }
  const before = shown?.request;
  const isSame = before && ["text", "input", "model"].every(key => before[key] === request[key]);
  if (isSame) request.heads = before.heads; // of other words they would make no sense
  const dropped = before && !isSame ? before.heads.length : 0;
  const isDone = await parse(request, { isNew: !isSame });
  if (isDone && dropped) say(`${get("status").textContent} Fixed heads of the old text are gone.`);
}

// ---- Trees ----------------------------------------------------------------------------------------

const step = () => Math.max(1, Math.floor(STEP / shown.request.kbest)); // in sentences

/** Draw the first `count` sentences anew. */
function render(count) {
  asking?.abort();
  const { sentences } = shown.answer;
  drawn = Math.min(Math.max(count, step()), sentences.length);
  get("sentences").replaceChildren(...sentences.slice(0, drawn).map(sentenceElement));
  get("more").hidden = drawn === sentences.length;
  get("more").textContent = `Show ${Math.min(step(), sentences.length - drawn)} more of `
    + plural(sentences.length, "sentence");
  get("result").hidden = false;
  renderLegend();
}

const fixedOf = number => new Map(shown.request.heads
  .filter(at => at.sentence === number).map(at => [at.word, at.head]));

function sentenceElement(sentence, index) {
  const number = index + 1;
  const fixed = fixedOf(number);
  const text = sentence.text || sentence.tokens.map(token => token.form).join(" ");
  const isFromRight = runsFromRight([text]);
  const made = element("section", { className: "sentence" });
  made.setAttribute("aria-label", `Sentence ${number}`);
  const quoted = element("p", { className: "source", dir: isFromRight ? "rtl" : "ltr" }, text);
  const copySvg = button("Copy SVG", () => copy(draw(number, "svg"), "The SVG"));
  const saveSvg = button("Save SVG", () => save(number));
  const copyTikz = button("Copy LaTeX", () => copy(draw(number, "tikz"), "The LaTeX"));
  for (const each of [copySvg, saveSvg, copyTikz]) {
    each.setAttribute("aria-label", `${each.textContent} of sentence ${number}`);
  }
  made.append(element("div", { className: "bar" },
    element("h2", {}, `Sentence ${number}`),
    element("div", { className: "buttons" }, copySvg, saveSvg, copyTikz)), quoted);
  if (fixed.size) made.append(pinsElement(sentence, number, fixed));
  if (sentence.tokens.length > MOST_DRAWN) {
    made.append(element("p", {}, `This sentence has ${plural(sentence.tokens.length, "word")}; at most `
      + `${MOST_DRAWN} are drawn. Its trees are in the CoNLL-U.`));
    return made;
  }
  made.append(element("div", { className: "trees", dir: isFromRight ? "rtl" : "ltr" },
    ...sentence.trees.map((_, k) => treeElement(sentence, number, k, fixed))));
  return made;
}

function button(text, onclick) {
  return element("button", { type: "button", onclick }, text);
}

function nameOf(sentence, head) {
  if (head === null) return "none"; // graphs may have words without a head
  return head ? `${sentence.tokens[head - 1]?.form} (${head})` : "the root (0)";
}

function pinsElement(sentence, number, fixed) {
  const list = element("ul", { className: "pins" });
  list.setAttribute("aria-label", "Fixed heads");
  for (const [word, head] of fixed) {
    const text = `${nameOf(sentence, word)}: head ${nameOf(sentence, head)}`;
    const remove = button("Remove", () => changeHeads(number, word, null));
    remove.setAttribute("aria-label", `Remove the fixed head of ${nameOf(sentence, word)}`);
    list.append(element("li", {}, text, " ", remove));
  }
  return list;
}

function treeElement(sentence, number, k, fixed) {
  const { tokens, trees } = sentence;
  const tree = trees[k];
  const { can } = modelOf(shown.answer.model) ?? { can: {} };
  const arcs = tokens.map((token, i) => {
    const head = tree.heads[i];
    const label = tree.deprels?.[i] ?? "";
    const probability = tree.probabilities?.[i] ?? null;
    const labelProbability = k ? null : token.deprel_probability;
    let differs = "";
    if (head !== trees[0].heads[i]) differs = "head";
    else if (label !== (trees[0].deprels?.[i] ?? "")) differs = "label";
    const isFixed = fixed.has(i + 1);
    const note = [`${token.form}: head ${nameOf(sentence, head)}`, label && `relation ${label}`];
    if (probability !== null) note.push(`probability of the head ${rounded(probability)}`);
    if (labelProbability !== null) note.push(`of the relation ${rounded(labelProbability)}`);
    if (differs) note.push(`another ${differs === "head" ? "head" : "relation"} than in tree 1`);
    if (isFixed) note.push("fixed");
    return { head, modifier: i + 1, label, probability, differs, isFixed,
      note: note.filter(Boolean).join(", ") };
  });
  const { rows } = shown.request;
  const words = tokens.map((token, i) => {
    const about = [token.upos, arcs[i].note.slice(token.form.length + 2)];
    return { form: token.form, about: about.filter(Boolean).join(", ") };
  });
  const different = arcs.filter(arc => arc.differs).length;
  const caption = [`Tree ${k + 1}`];
  if (tree.probability != null) caption.push(`probability ${rounded(tree.probability)}`);
  if (k) caption.push(different ? `${plural(different, "arc")} not as in tree 1` : "as tree 1");
  const svg = drawing({
    words, spans: sentence.multiword, arcs: arcs.filter(arc => arc.head !== null),
    rows: rows.map(row => tokens.map(token => token[row] ?? "")),
    title: `Tree ${k + 1} of sentence ${number}`,
    can: { explain: can.explain, fix: can.keep_heads },
    on: {
      say,
      explain: word => explain(sentence, number, word, k, svg),
      fix: (word, head) => changeHeads(number, word, head),
      free: word => fixed.has(word) && changeHeads(number, word, null),
    },
  });
  const box = element("div", { className: "wide" });
  box.append(svg);
  const made = element("figure", { className: "of-tree" });
  if (sentence.trees.length > 1) made.append(element("figcaption", { dir: "ltr" }, caption.join(" · ")));
  made.append(box);
  return made;
}

/** Fix the head of a word, or, with null, leave it to the parser; what fails is taken back. */
async function changeHeads(number, word, head) {
  const before = shown.request;
  const heads = before.heads.filter(at => at.sentence !== number || at.word !== word);
  if (head !== null) heads.push({ sentence: number, word, head });
  const scrolls = [...document.querySelectorAll(".wide")].map(box => box.scrollLeft);
  if (!await parse({ ...before, heads })) {
    if (running === null && head !== null) say("The head was not fixed.");
    return;
  }
  const { form } = shown.answer.sentences[number - 1].tokens[word - 1];
  say(head === null ? `The head of ${form} is found by the parser again.`
    : `The head of ${form} is fixed: ${nameOf(shown.answer.sentences[number - 1], head)}.`);
  const svg = get("sentences").children[number - 1]?.querySelector("svg");
  svg?.focusWord(word);
  document.querySelectorAll(".wide").forEach((box, i) => { box.scrollLeft = scrolls[i] ?? 0; });
}

function renderLegend() {
  const { request, answer } = shown;
  const parts = [];
  const sample = (kind, opacity) => {
    const svg = shape("svg", { width: 26, height: 10, class: "shaded", "aria-hidden": "true" });
    const group = shape("g", { class: `arc ${kind}` });
    group.append(shape("path", { class: "line", d: "M1,5H25", "stroke-opacity": opacity }));
    svg.append(group);
    return svg;
  };
  if (request.probabilities && answer.sentences.some(each => each.trees[0]?.probabilities)) {
    const scale = [0, 0.25, 0.5, 0.75, 1].map(p => sample("", shadeOf(p)));
    parts.push(element("span", {}, "Probability of a head: 0 ", ...scale, " 1"));
  }
  if (answer.sentences.some(each => each.trees.length > 1)) {
    parts.push(element("span", {}, sample("differs-head", 1), " another head than in tree 1"));
    parts.push(element("span", {}, sample("differs-label", 1), " another relation"));
  }
  get("legend").replaceChildren(...parts);
}

// ---- Explanations -----------------------------------------------------------------------------------

/** Ask why a word has its head, and show the answer below the trees of the sentence. */
async function explain(sentence, number, word, k, svg, instead = null) {
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const { request } = shown;
  const section = get("sentences").children[number - 1];
  const body = { ...sourceOf(request), sentence: number, word };
  // Of a further tree: why this head is not the best one.
  if (instead === null && k && sentence.trees[k].heads[word - 1] !== sentence.trees[0].heads[word - 1]) {
    instead = sentence.trees[k].heads[word - 1];
  }
  if (instead !== null) body.instead = instead;
  say("Explaining …");
  let answer;
  try {
    answer = await call("api/explain", body, mine.signal);
  } catch (error) {
    if (asking === mine) {
      say("");
      report(error);
    }
    return;
  }
  if (asking !== mine) return;
  complain("");
  for (const old of document.querySelectorAll(".panel")) old.remove();
  const panel = panelElement(sentence, number, word, k, svg, answer);
  section.append(panel);
  panel.scrollIntoView({ block: "nearest" });
  say(`The head of ${nameOf(sentence, word)} is explained below the tree.`);
}

function panelElement(sentence, number, word, k, svg, answer) {
  const { can } = modelOf(shown.answer.model) ?? { can: {} };
  const { reasons } = answer;
  const panel = element("section", { className: "panel" });
  const title = `Why ${nameOf(sentence, word)} has its head`;
  panel.setAttribute("aria-label", title);
  const close = () => {
    panel.remove();
    if (svg.isConnected) svg.focusWord(word);
  };
  panel.addEventListener("keydown", event => event.key === "Escape" && close());
  panel.append(element("div", { className: "bar" }, element("h3", {}, title),
    button("Close", close)));
  if (fixedOf(number).size) {
    panel.append(element("p", { className: "note" },
      "The explanation is of the tree without fixed heads."));
  }
  const rows = alternatives(reasons);
  if (rows.length) panel.append(tableElement("Alternatives", ["head", "nats", "difference"], rows));

  // Another head: to compare with, or to fix where there is no mouse.
  const heads = element("select");
  for (let head = 0; head <= sentence.tokens.length; head++) {
    if (head !== word) heads.append(element("option", { value: String(head) }, nameOf(sentence, head)));
  }
  heads.value = String(reasons.other_head);
  const chosen = () => Number(heads.value);
  const controls = element("div", { className: "options" }, element("label", {}, "Other head ", heads),
    button("Compare", () => explain(sentence, number, word, 0, svg, chosen())));
  if (can.keep_heads) {
    controls.append(button("Fix this head", () => changeHeads(number, word, chosen())));
    if (fixedOf(number).has(word)) {
      controls.append(button("Remove fixed head", () => changeHeads(number, word, null)));
    }
  }
  const text = element("pre", { tabIndex: 0, dir: "ltr" }, answer.text);
  text.setAttribute("aria-label", "Explanation");
  text.setAttribute("role", "region");
  panel.append(controls, text);
  return panel;
}

/** Both trees' scores in nats as rows of a table; none of models without templates. */
function alternatives(reasons) {
  const name = head => (head ? `${reasons.forms[head - 1]} (${head})` : "the root (0)");
  const number = value => (Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(3));
  if (!reasons.tree) return [];
  const { score, other_score: other, scale, nats } = reasons.tree;
  return [[name(reasons.head), number(score * scale), number(0)],
    [name(reasons.other_head), number(other * scale), number(nats)]];
}

function tableElement(title, headings, rows) {
  const head = element("tr", {}, ...headings.map(text => element("th", { scope: "col" }, text)));
  const lines = rows.map(([first, ...others]) => element("tr", {},
    element("th", { scope: "row" }, first), ...others.map(text => element("td", {}, text))));
  const box = element("div", { className: "wide" }, element("table", {},
    element("caption", {}, title), element("thead", {}, head), element("tbody", {}, ...lines)));
  return box;
}

// ---- Copies ---------------------------------------------------------------------------------------

/** The drawing of a sentence's best tree, as `gpuparse draw` makes it. */
async function draw(number, format) {
  const body = { ...bodyOf(shown.request), format };
  delete body.kbest;
  return (await call("api/draw", body)).drawings[number - 1];
}

async function copy(content, name) {
  try {
    await toClipboard(await content);
    complain("");
    say(`${name} was copied.`);
  } catch (error) {
    complain(error.message);
  }
}

async function toClipboard(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // Below: the older way, where the browser refuses this one.
    }
  }
  // Pages from other machines without TLS have no clipboard: a selected field is copied instead.
  const holder = element("textarea", { value: text, className: "unseen" });
  const focused = document.activeElement;
  document.body.append(holder);
  holder.select();
  const isDone = document.execCommand("copy");
  holder.remove();
  focused?.focus();
  if (!isDone) throw new Error("The browser does not allow to copy.");
}

async function save(number) {
  try {
    const svg = await draw(number, "svg");
    const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
    element("a", { href: address, download: `sentence-${number}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    complain("");
    say(`sentence-${number}.svg was saved.`);
  } catch (error) {
    complain(error.message);
  }
}

async function linkOf(request) {
  if (toFragment(request) === null) {
    throw new Error("The text is too long for a link. Save the CoNLL-U instead.");
  }
  return location.href;
}

// ---- Start ----------------------------------------------------------------------------------------

/** Show what the link asks for; false where it has no fragment, or a wrong one. */
function restore() {
  const fragment = location.hash.replace(/^#/, "");
  if (!fragment) return false;
  let request;
  try {
    request = fromFragment(fragment, models.map(model => model.name));
    const { can } = modelOf(request.model);
    if (RAW.includes(request.input) && !can.text) throw new Error("its model reads no raw text");
    if (request.kbest > Math.min(MOST_TREES, limits.kbest)) throw new Error("it asks for too many trees");
    if (request.kbest > 1 && !can.kbest) throw new Error("its model finds one tree only");
    if (request.probabilities && !can.probabilities) {
      throw new Error("its model has no probabilities");
    }
    if (request.heads.length && !can.keep_heads) throw new Error("its model keeps no heads");
  } catch (error) {
    complain(`The link was not used: ${error.message}.`);
    return false;
  }
  fillForm(request);
  if (request.text.trim()) parse(request, { isNew: true });
  return true;
}

function listen() {
  get("form").addEventListener("submit", event => {
    event.preventDefault();
    parseForm();
  });
  field.text.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      parseForm();
    }
  });
  field.model.addEventListener("change", () => {
    showModel();
    const request = requestOfForm();
    if (["text", "input"].every(key => shown?.request[key] === request[key])) parseForm();
  });
  for (const option of [field.kbest, field.probabilities]) {
    option.addEventListener("change", () => {
      if (!shown) return;
      const { kbest, probabilities } = requestOfForm();
      parse({ ...shown.request, kbest, probabilities }, { isNew: true });
    });
  }
  get("rows").addEventListener("change", () => {
    shown.request.rows = rowsShown();
    showLink();
    render(drawn);
  });
  get("error-close").addEventListener("click", () => complain(""));
  get("more").addEventListener("click", () => render(drawn + step()));
  get("copy-conllu").addEventListener("click", () => copy(shown.answer.conllu, "The CoNLL-U"));
  get("copy-link").addEventListener("click", () => copy(linkOf(shown.request), "The link"));
  addEventListener("hashchange", restore);
}

async function start() {
  let answer;
  try {
    answer = await call("api/models");
  } catch (error) {
    report(error);
    return;
  }
  ({ models, limits } = answer);
  field.model.append(...models.map(model => element("option", {}, model.name)));
  field.model.value = answer.default;
  for (let k = 1; k <= Math.min(MOST_TREES, limits.kbest); k++) {
    field.kbest.append(element("option", {}, String(k)));
  }
  get("limits").textContent = `At most ${plural(limits.words, "word")}. Ctrl+Enter parses.`;
  showModel();
  listen();
  get("parse").disabled = false;
  const { language } = modelOf(answer.default);
  if (!restore() && !field.text.value && (language ?? "en").startsWith("en")) {
    field.text.value = EXAMPLE;
  }
}

get("ask").addEventListener("submit", event => {
  event.preventDefault();
  setToken(get("token").value.trim());
  get("token").value = "";
  get("ask").hidden = true;
  if (models.length) say("The token will be used from now on.");
  else start();
});
start();
