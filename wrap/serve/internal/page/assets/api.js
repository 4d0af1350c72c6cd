// What the page asks the server.

// The token is kept here, and nowhere that outlives the page.
let token = "";

export const setToken = (text) => { token = text; };

// A Refusal is an answer that is an error.
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server cannot be reached.");
  }
  const document = await response.json().catch(() => null);
  if (!response.ok) throw new Refusal(response.status, document?.error ?? `The server answered ${response.status}.`);
  return document;
}

// models lists what is served.
export const models = async () => (await ask("v1/models")).models;

// predict asks a model about a body, a Blob of an image or the text of a JSON object.
export const predict = (model, body, signal) => ask(predictPath(model), {
  method: "POST", body, signal,
  headers: { "Content-Type": typeof body === "string" ? "application/json" : body.type || "application/octet-stream" },
});

export const predictPath = (model) => `v1/predict?model=${encodeURIComponent(model)}`;

// command is what does the same in a terminal. name is that of the file that was sent as it is, if there is one.
export function command(model, body, name) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const url = new URL(predictPath(model), document.baseURI).href;
  const authorization = token ? ` -H "Authorization: Bearer $TOKEN"` : "";
  const data = name === undefined ? `-d ${quoted(body)}` : `--data-binary ${quoted("@" + name)}`;
  return `curl${authorization} ${data} ${quoted(url)}`;
}
