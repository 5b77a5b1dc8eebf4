// What is asked for, and its form in the fragment of a link.
//
// A request is {text, input, model, kbest, probabilities, rows, heads}. Fragments come from
// strangers: each value is checked, and a fragment with a wrong one is not used at all.

export const ROWS = ["upos", "xpos", "lemma"];
export const INPUTS = ["text", "lines", "words", "conllu"];
export const MOST_TREES = 8;
const MOST_CHARACTERS = 8000; // of a fragment: longer links are cut by many programs
const MOST_HEADS = 500;

/** The fragment of a request, without #; null where it would be too long. */
export function toFragment(request) {
  const fields = new URLSearchParams({ text: request.text, model: request.model });
  if (request.input !== "text") fields.set("input", request.input);
  if (request.kbest > 1) fields.set("k", request.kbest);
  if (request.probabilities) fields.set("p", "1");
  fields.set("rows", request.rows.join("."));
  if (request.heads.length) {
    fields.set("heads", request.heads.map(at => `${at.sentence}.${at.word}.${at.head}`).join("_"));
  }
  const fragment = fields.toString();
  return fragment.length <= MOST_CHARACTERS && request.heads.length <= MOST_HEADS ? fragment : null;
}

/** The request of a fragment; throws an Error that says what is wrong. */
export function fromFragment(fragment, models) {
  if (fragment.length > MOST_CHARACTERS) throw new Error("it is too long");
  const fields = new URLSearchParams(fragment);
  const known = ["text", "model", "input", "k", "p", "rows", "heads"];
  for (const name of new Set(fields.keys())) {
    if (!known.includes(name)) throw new Error("it has a field that is not known");
    if (fields.getAll(name).length > 1) throw new Error(`it has the field ${name} twice`);
  }
  const text = fields.get("text");
  if (text === null) throw new Error("it has no text");
  const model = fields.get("model");
  if (!models.includes(model)) throw new Error("this service does not have its model");
  const input = fields.get("input") ?? "text";
  if (!INPUTS.includes(input)) throw new Error("its kind of input is not known");
  const kbest = fields.get("k") ?? "1";
  if (!/^[1-9]$/.test(kbest) || Number(kbest) > MOST_TREES) {
    throw new Error(`its number of trees is not 1 to ${MOST_TREES}`);
  }
  const probabilities = fields.get("p") ?? "0";
  if (!/^[01]$/.test(probabilities)) throw new Error("p is not 0 or 1");
  const rows = (fields.get("rows") ?? "upos.lemma").split(".").filter(Boolean);
  if (!rows.every(row => ROWS.includes(row))) throw new Error("its rows are not known");
  return {
    text, model, input, kbest: Number(kbest), probabilities: probabilities === "1", rows,
    heads: headsOf(fields.get("heads") ?? ""),
  };
}

function headsOf(field) {
  if (!field) return [];
  const heads = field.split("_").map(part => {
    const found = /^(\d{1,6})\.(\d{1,6})\.(\d{1,6})$/.exec(part);
    if (!found) throw new Error("its fixed heads cannot be read");
    const [sentence, word, head] = found.slice(1).map(Number);
    if (!sentence || !word || word === head) throw new Error("a fixed head is not possible");
    return { sentence, word, head };
  });
  if (heads.length > MOST_HEADS) throw new Error("it has too many fixed heads");
  if (new Set(heads.map(at => `${at.sentence}.${at.word}`)).size < heads.length) {
    throw new Error("a word has two fixed heads");
  }
  return heads;
}
