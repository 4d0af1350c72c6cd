// Rows of files, and what a model is sent of them. Nothing here knows of the page.

// mostRows bounds the rows of a file that are offered, and mostFields the values that have a field each.
export const mostRows = 10000;
export const mostFields = 64;

const labels = ["label", "labels"];

// read returns the rows of the text of a file: its columns, and of each row a text for each column or,
// in JSON lines, any value. cut says that the text may end within a row.
export function read(text, cut) {
  text = text.replace(/^\uFEFF/, "");
  return /^\s*[{[]/.test(text) ? readLines(text, cut) : readTable(text, cut);
}

function readLines(text, cut) {
  const lines = text.split("\n");
  if (cut) lines.pop();
  const rows = [], columns = new Set();
  for (const [i, line] of lines.entries()) {
    if (line.trim() === "") continue;
    if (rows.length === mostRows) return { columns: [...columns], rows, more: true };
    let row;
    try {
      row = JSON.parse(line);
    } catch {
      throw new Error(`Line ${i + 1} is not JSON: want one object per line.`);
    }
    if (row === null || typeof row !== "object" || Array.isArray(row)) {
      throw new Error(`Line ${i + 1} is not a JSON object.`);
    }
    for (const key of Object.keys(row)) columns.add(key);
    rows.push(row);
  }
  if (rows.length === 0) throw new Error("The file has no rows.");
  return { columns: [...columns], rows, more: cut };
}

// readTable reads RFC 4180, and also what is separated by tabs or semicolons.
function readTable(text, cut) {
  const head = text.split(/\r?\n/, 1)[0];
  const separator = head.includes(",") ? "," : head.includes("\t") ? "\t" : head.includes(";") ? ";" : ",";
  const all = cells(text, separator, mostRows + 2);
  if (cut) all.pop();
  const columns = (all.shift() ?? []).map((name) => name.trim());
  if (all.length === 0) throw new Error("The file has no rows below its header.");
  const rows = all.slice(0, mostRows).map((row, i) => {
    if (row.length !== columns.length) {
      throw new Error(`Row ${i + 1} has ${row.length} cells, want ${columns.length} as in the header.`);
    }
    return Object.fromEntries(columns.map((name, k) => [name, row[k].trim()]));
  });
  return { columns, rows, more: cut || all.length > mostRows };
}

function cells(text, separator, most) {
  const rows = [];
  let row = [], at = 0;
  while (at < text.length && rows.length < most) {
    let cell = "";
    if (text[at] === '"') {
      for (at++; ; at++) {
        const end = text.indexOf('"', at);
        if (end < 0) throw new Error("A quoted cell has no closing quote.");
        cell += text.slice(at, end);
        at = end + 1;
        if (text[at] !== '"') break;
        cell += '"';
      }
    }
    let end = at;
    while (end < text.length && text[end] !== separator && text[end] !== "\n") end++;
    cell += text.slice(at, end).replace(/\r$/, "");
    row.push(cell);
    at = end + 1;
    if (end >= text.length || text[end] === "\n") {
      if (row.length > 1 || row[0] !== "") rows.push(row);
      row = [];
    }
  }
  if (row.length > 0 && rows.length < most) rows.push([...row, ""]); // the text ended behind a separator
  return rows;
}

// labelOf is what a row says of its class, or undefined.
export function labelOf(model, row) {
  const key = labels.find((name) => name in row && !model.inputs.some((input) => input.name === name));
  return key === undefined ? undefined : row[key];
}

// An input's size is how many numbers an example has, undefined where that is open.
const size = (input) => input.shape.slice(1).reduce((n, d) => d < 0 ? undefined : n && n * d, 1);

// A field is one that a person edits: {label, text, input, at}: element at of an input, or, as block, all of
// it as JSON.

// empty returns the fields of a model of whose input nothing is known yet.
export const empty = (model) => model.inputs.flatMap((input) => {
  const n = size(input);
  if (n === undefined || n > mostFields) return [{ label: input.name, text: "", input, block: true }];
  return Array.from({ length: n }, (_, at) => ({ label: n === 1 ? input.name : `${input.name} ${at + 1}`, text: "", input, at }));
});

// fields returns those of a row. Columns called like the model's inputs feed them; else all columns but the
// label feed the only input, in their order.
export function fields(model, columns, row) {
  if (model.inputs.every((input) => columns.includes(input.name))) {
    return model.inputs.flatMap((input) => ofValue(input, input.name, row[input.name]));
  }
  const fed = columns.filter((name) => !labels.includes(name));
  const [input] = model.inputs;
  if (model.inputs.length > 1) {
    const missing = model.inputs.find((one) => !columns.includes(one.name));
    throw new Error(`The file has no column ${missing.name}, which is an input of the model; it has ${columns.join(", ")}.`);
  }
  if (fed.length === 1) return ofValue(input, fed[0], row[fed[0]]);
  if (fed.length > mostFields) {
    const all = fed.map((name) => literal(input, row[name] ?? "", name));
    return [{ label: input.name, text: nested(all, input), input, block: true }];
  }
  return fed.map((name, at) => ({ label: name, text: textOf(row[name]), input, at }));
}

const textOf = (value) => value === null || value === undefined ? "" : String(value);

function ofValue(input, label, value) {
  if (Array.isArray(value)) {
    const flat = value.every((one) => !Array.isArray(one));
    if (!flat || value.length > mostFields || input.shape.length !== 2) {
      return [{ label, text: JSON.stringify(value), input, block: true }];
    }
    return value.map((one, at) => ({ label: `${label} ${at + 1}`, text: textOf(one), input, at }));
  }
  return [{ label, text: textOf(value), input, at: 0 }];
}

// bodyOf returns the JSON object that fields say. Numbers go as they are written, with all their digits.
export function bodyOf(model, all) {
  const members = model.inputs.map((input) => {
    const own = all.filter((field) => field.input === input);
    if (own.length === 1 && own[0].block) return `${JSON.stringify(input.name)}:${block(own[0])}`;
    return `${JSON.stringify(input.name)}:${nested(own.map((field) => literal(input, field.text, field.label)), input)}`;
  });
  return `{${members.join(",")}}`;
}

function block(field) {
  const text = field.text.trim();
  try {
    JSON.parse(text.replace(/\b(NaN|Infinity)\b/g, "0"));
  } catch {
    throw new Error(`${field.label}: want a JSON list, such as [1, 2, 3].`);
  }
  return text;
}

const number = /^([+-]?)0*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)$/;
const special = { nan: "NaN", inf: "Infinity", infinity: "Infinity", "-inf": "-Infinity", "-infinity": "-Infinity" };

// literal is a value as JSON.
export function literal(input, text, label) {
  text = text.trim();
  if (input.datatype === "BYTES") return JSON.stringify(text);
  if (input.datatype === "BOOL" && /^(true|false)$/i.test(text)) return text.toLowerCase();
  if (text === "") return "null"; // a missing value
  if (text.toLowerCase() in special) return special[text.toLowerCase()];
  const parts = number.exec(text);
  if (!parts) throw new Error(`${label}: “${text}” is not a number.`);
  let digits = parts[2].replace(/^(?=[.eE])/, "0").replace(/\.(?=$|[eE])/, "");
  return (parts[1] === "-" ? "-" : "") + digits;
}

// nested are elements as lists in the shape of an input, or one list where their number is not its size.
export function nested(elements, input) {
  const dims = input.shape.slice(1);
  if (size(input) !== elements.length) return dims.length === 0 ? elements.join(",") : `[${elements.join(",")}]`;
  let level = elements;
  for (const d of dims.toReversed()) {
    const above = [];
    for (let i = 0; i < level.length; i += d) above.push(`[${level.slice(i, i + d).join(",")}]`);
    level = above;
  }
  return level.join(",");
}

// percent is a part of 1 for people. What is not certain is never called 0 or 100 %.
export function percent(p) {
  if (p > 0 && p < 0.0005) return "< 0.1 %";
  if (p < 1 && p >= 0.9995) return "> 99.9 %";
  return `${(100 * p).toFixed(1)} %`;
}
