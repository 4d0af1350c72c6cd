// The page: takes a picture or a row, asks the server, and shows the answer.

import * as api from "./api.js";
import * as data from "./data.js";
import { show, summary } from "./answer.js";
import { showFields, showRows } from "./rows.js";

const at = (id) => document.getElementById(id);
const mostBytes = 8 << 20; // that are read of a file of rows

const state = {
  models: [],
  model: undefined, // the one that is asked
  ask: undefined, // asks the model again what it was asked last
  fields: [],
  running: undefined, // the AbortController of the request under way
  preview: undefined, // the address of the picture that is shown
};

// fail shows an error. That of a token shows where to give one.
function fail(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    at("entry").hidden = false;
    at("token").focus();
  }
  at("error").textContent = error.message;
  at("error").hidden = false;
  at("empty").hidden = true;
  at("result").hidden = true;
}

async function load() {
  state.models = await api.models();
  const ready = state.models.filter((model) => model.ready);
  const before = state.model?.name;
  state.model = ready.find((model) => model.name === before) ?? ready[0];
  at("model").replaceChildren(...state.models.map((model) => {
    const option = new Option(model.ready ? model.name : `${model.name} (not loaded)`, model.name);
    option.disabled = !model.ready;
    option.selected = model === state.model;
    return option;
  }));
  at("choice").hidden = false;
  if (!state.model) throw new Error(`No model is loaded: ${state.models[0]?.reason ?? ""}`);
  return before;
}

// begin shows what the model takes, with nothing given yet.
function begin() {
  const images = state.model.images;
  at("file-title").textContent = images ? "Drop, paste or choose an image" : "Drop or choose a file of rows";
  at("file-note").textContent = images
    ? "PNG, JPEG, or another format the browser can show. Also rows as CSV or JSON lines."
    : "CSV with a header, or JSON lines. Or type values below.";
  at("file").value = "";
  at("drop").classList.remove("small");
  for (const id of ["picture", "rows", "result", "error", "curl"]) at(id).hidden = true;
  at("empty").hidden = false;
  state.ask = undefined;
  edit(images ? [] : data.empty(state.model));
}

function edit(fields, said) {
  state.fields = fields;
  state.said = said;
  at("editor").hidden = fields.length === 0;
  showFields(at("fields"), fields);
}

// ask asks the model, and shows what it answers. name is that of a file that is sent as it is.
async function ask(body, name, said) {
  state.running?.abort();
  const running = state.running = new AbortController();
  state.ask = () => ask(body, name, said);
  at("answer").setAttribute("aria-busy", "true");
  at("error").hidden = true;
  try {
    const answer = await api.predict(state.model.name, body, running.signal);
    if (answer.bundle_sha256 !== state.model.bundle_sha256) await load(); // it was reloaded
    show(at("result"), state.model, answer, said);
    at("result").hidden = false;
    at("empty").hidden = true;
    at("status").textContent = summary(state.model, answer);
    at("command").textContent = api.command(state.model.name, body, name);
    at("curl").hidden = false;
  } catch (error) {
    fail(error);
  } finally {
    if (state.running === running) at("answer").setAttribute("aria-busy", "false");
  }
}

// take takes a file that was dropped, chosen or pasted.
async function take(file) {
  at("error").hidden = true;
  try {
    if (!state.model) return;
    if (file.type.startsWith("image/")) await takePicture(file);
    else await takeRows(file);
  } catch (error) {
    fail(error);
  }
}

async function takePicture(file) {
  let sent = file, note = "";
  if (file.type !== "image/png" && file.type !== "image/jpeg") {
    sent = await asPNG(file);
    note = ", converted to PNG by the browser";
  }
  if (state.preview) URL.revokeObjectURL(state.preview);
  state.preview = URL.createObjectURL(sent);
  const image = at("image");
  image.src = state.preview;
  image.alt = `The image ${file.name}`;
  await image.decode().catch(() => {}); // what is wrong with it the server says
  image.classList.toggle("tiny", image.naturalWidth > 0 && image.naturalWidth < 96);
  at("image-note").textContent = `${file.name}, ${image.naturalWidth} × ${image.naturalHeight}${note}`;
  at("picture").hidden = false;
  at("rows").hidden = true;
  at("drop").classList.add("small");
  edit([]);
  await ask(sent, note ? "picture.png" : file.name);
}

async function asPNG(file) {
  const bitmap = await createImageBitmap(file, { imageOrientation: "from-image" }).catch(() => {
    throw new Error(`${file.name}: the browser cannot read this image format. Save it as PNG or JPEG.`);
  });
  const canvas = document.createElement("canvas");
  canvas.width = bitmap.width;
  canvas.height = bitmap.height;
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  const png = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!png) throw new Error(`${file.name}: the image is too large for the browser.`);
  return png;
}

async function takeRows(file) {
  const text = await file.slice(0, mostBytes).text();
  if (/[\u0000-\u0008]/.test(text.slice(0, 1000))) {
    throw new Error(`${file.name} is neither an image nor a file of rows.`);
  }
  const read = data.read(text, file.size > mostBytes);
  const parts = Object.fromEntries(["note", "scroll", "table", "pages", "before", "after"].map((name) => [name, at(`rows-${name}`)]));
  at("picture").hidden = true;
  at("rows").hidden = false;
  at("drop").classList.add("small");
  edit([]);
  showRows(parts, { name: file.name, ...read }, (row) => {
    try {
      edit(data.fields(state.model, read.columns, row), data.labelOf(state.model, row));
      at("editor").requestSubmit();
    } catch (error) {
      fail(error);
    }
  });
}

async function start() {
  try {
    const before = await load();
    at("entry").hidden = true;
    at("error").hidden = true;
    if (before === undefined) begin();
  } catch (error) {
    fail(error);
  }
}

at("editor").addEventListener("submit", (event) => {
  event.preventDefault();
  try {
    ask(data.bodyOf(state.model, state.fields), undefined, state.said);
  } catch (error) {
    fail(error);
  }
});
at("entry").addEventListener("submit", async (event) => {
  event.preventDefault();
  api.setToken(at("token").value);
  at("token").value = "";
  await start();
  if (at("entry").hidden) {
    at("file").focus();
    state.ask?.();
  }
});
at("model").addEventListener("change", () => {
  state.running?.abort();
  state.model = state.models.find((model) => model.name === at("model").value);
  begin();
});
at("file").addEventListener("change", () => {
  const [file] = at("file").files;
  if (file) take(file);
});
document.addEventListener("paste", (event) => {
  const [file] = event.clipboardData.files;
  if (!file) return;
  event.preventDefault();
  take(file);
});
// Files may be dropped anywhere: elsewhere the browser would leave the page for them.
let inside = 0;
const over = (by) => {
  inside = Math.max(0, inside + by);
  at("drop").classList.toggle("over", inside > 0);
};
document.addEventListener("dragenter", () => over(1));
document.addEventListener("dragleave", () => over(-1));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  over(-Infinity);
  const [file] = event.dataTransfer.files;
  if (file) take(file);
});

start();
