// Calls of the service, and the text of what went wrong.

const TOKEN = "gpuparse-token"; // in the storage of this tab, which ends with it

/** Send a token with all calls from now on. */
export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

/**
 * GET or, with a body, POST; throws an Error whose message can be shown, and whose `needsToken` says
 * whether the service wants another token.
 */
export async function call(path, body, signal) {
  const options = { signal, credentials: "same-origin", headers: {} };
  const token = sessionStorage.getItem(TOKEN);
  if (token) options.headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  let content;
  try {
    answer = await fetch(path, options);
    content = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service does not answer. Is it still running?");
  }
  let value = null;
  try {
    value = JSON.parse(content);
  } catch {
    // Below: a proxy between may answer with a page of its own.
  }
  if (answer.ok && value !== null) return value;
  if (answer.status === 401) {
    const what = token ? "The service does not take this token." : "The service needs a token.";
    throw Object.assign(new Error(what), { needsToken: true });
  }
  const said = value?.error;
  if (!said?.message) throw new Error(`The service answered with the status ${answer.status}.`);
  const isNamed = !said.where || said.message.includes(said.where);
  throw new Error(isNamed ? said.message : `${said.message} (in: ${said.where})`);
}

/** The part of a body that says what is parsed; `request` as in state.js. */
export function sourceOf(request) {
  const body = { model: request.model };
  if (request.input === "conllu") {
    body.conllu = request.text.endsWith("\n") ? request.text : `${request.text}\n`;
  } else if (request.input === "words") {
    const lines = request.text.split(/\r?\n/).map(line => line.trim()).filter(Boolean);
    body.sentences = lines.map(line => line.split(/\s+/));
  } else {
    body[request.input] = request.text; // text or lines
  }
  return body;
}

/** The body of /api/parse. */
export function bodyOf(request) {
  const body = sourceOf(request);
  if (request.probabilities) body.probabilities = true;
  if (request.kbest > 1) body.kbest = request.kbest;
  if (request.heads.length) body.heads = request.heads;
  return body;
}
