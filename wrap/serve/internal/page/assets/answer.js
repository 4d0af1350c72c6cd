// The elements under Answer, which show the result of POST /v1/predict.

import { percent } from "./data.js";

// element makes one, with attributes and children, which are elements or texts.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

const methods = {
  mf0: "mfgs: this bundle uses mean-field probabilities.",
  matrix: "mfgs: this bundle uses matrix scaling, which was selected on the validation data.",
  ts: "mfgs: this bundle uses temperature scaling, which was selected on the validation data.",
  mle: "This bundle uses the network's own probabilities: no other method was significantly better on the validation data.",
};

// verdict is the answer in a word or two, and in a sentence.
function verdict(model, answer) {
  if (!model.multi_label) {
    const other = answer.network.class === answer.class ? "" : `for ${answer.network.label} `;
    return [answer.label, `${percent(answer.confidence)} by mfgs, ${percent(answer.network.confidence)} ${other}by the network alone`];
  }
  const names = (one) => (one.label_names ?? (one.labels ?? []).map(String)).join(", ") || "no label";
  return [names(answer), `are the labels above 50 %; the network alone has ${names(answer.network)}`];
}

// reasons say in words why the model abstains.
function reasons(model, answer) {
  const rules = model.decisions ?? {}, reason = answer.abstain_reason ?? "", list = [];
  if (reason.includes("uncertain")) {
    const least = rules.uncertainty && model.multi_label === false
      ? `, below the threshold of ${percent(1 - rules.uncertainty.threshold)}` : "";
    list.push(["Uncertain", `the confidence is ${percent(answer.confidence)}${least}.`]);
  }
  if (reason.includes("out-of-distribution")) {
    const up = oodThreshold(model);
    const most = up === undefined ? "" : `; the threshold is ${percent(up)}`;
    list.push(["Out-of-distribution", `${place(answer)}${most}.`]);
  }
  return list;
}

// oodThreshold is the fraction of validation examples that are not flagged as out-of-distribution.
function oodThreshold(model) {
  const rule = model.decisions?.ood;
  return rule && rule.examples > 0 ? rule.accepted / rule.examples : undefined;
}

// place says how an OOD score compares with those of the validation examples.
function place(answer) {
  const p = answer.ood_percentile;
  if (p === null || p === undefined) return `its OOD score is ${answer.ood_score.toPrecision(3)}`;
  if (p === 1) return "its OOD score is higher than those of all validation examples";
  if (p === 0) return "its OOD score is no higher than that of any validation example";
  return `its OOD score is higher than those of ${percent(p)} of the validation examples`;
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

function setNames(answer) {
  return answer.prediction_set_names ?? answer.prediction_set?.map(String);
}

// summary is the text for screen readers.
export function summary(model, answer) {
  const [word, detail] = verdict(model, answer);
  const parts = [`${word}, ${detail}.`];
  if (answer.abstain === true) parts.push("The model abstains.", ...reasons(model, answer).map(([name, text]) => `${name}: ${text}`));
  if (answer.abstain === false) parts.push("Answered.");
  const set = setNames(answer);
  if (set) parts.push(set.length > 0 ? `Prediction set: ${set.join(", ")}.` : "The prediction set is empty.");
  if (answer.abstain !== true) parts.push(sentence(place(answer)));
  return parts.join(" ");
}

// uncertain lists the uncertain characters of a text, or steps of a sequence.
function uncertain(answer) {
  const characters = (answer.characters ?? []).map((one) => [one.text === " " ? "␣" : one.text, one.probability]);
  const tags = (answer.tags ?? []).map((one, step) => [`step ${step}, ${one?.tag},`, one?.probability ?? 1]);
  const steps = (answer.steps ?? []).map((one) => [`step ${one.step}, ${one.label},`, one.confidence]);
  const list = [...characters, ...tags, ...steps].filter(([, p]) => p < 0.9).map(([what, p]) => `${what} ${percent(p)}`);
  return list.length === 0 ? undefined : `Uncertain: ${list.join("; ")}`;
}

// show puts an answer into a place. said is the label that the file gives, or undefined.
export function show(at, model, answer, said) {
  const [word, detail] = verdict(model, answer);
  at.replaceChildren(...[
    element("p", { class: "verdict" }, answer.abstain === true ? `${word}?` : word),
    element("p", {}, detail),
    uncertain(answer) === undefined ? undefined : element("p", {}, uncertain(answer)),
    said === undefined ? undefined : element("p", { class: "quiet" }, `The file’s own label: ${nameOf(answer, said)}`),
    decision(model, answer),
    element("h3", {}, "Probabilities"), bars(model, answer),
    ...sets(model, answer),
    element("h3", {}, "Out-of-distribution score"), ...strip(model, answer),
    ...guarantees(model),
  ].filter((part) => part !== undefined));
}

// nameOf is the name of a class that a file gives by name or number.
function nameOf(answer, said) {
  const text = typeof said === "string" ? said : JSON.stringify(said);
  return answer.top.find((one) => String(one.class) === text)?.label ?? text;
}

function decision(model, answer) {
  if (answer.abstain === undefined) {
    return element("p", { class: "quiet" }, "This bundle has no thresholds for abstaining.");
  }
  if (!answer.abstain) return element("p", {}, "Answered: neither uncertain nor out-of-distribution by this bundle's thresholds.");
  return element("ul", { class: "reasons" }, element("li", {}, element("strong", {}, "The model abstains.")),
    ...reasons(model, answer).map(([name, text]) => element("li", {}, element("strong", {}, `${name}: `), text)));
}

function bars(model, answer) {
  const set = new Set(answer.prediction_set ?? []);
  const bar = (p) => {
    const part = element("span");
    part.style.setProperty("--part", `${100 * p}%`);
    return element("span", { class: "bar", "aria-hidden": "true" }, part);
  };
  const head = (name, text) => element("th", { scope: "col", class: name }, text);
  const rest = model.classes - answer.top.length;
  return element("table", { class: "bars" },
    element("caption", { class: "quiet" }, methods[model.method] ?? "",
      rest > 0 ? ` The ${answer.top.length} most probable of ${model.classes} classes.` : ""),
    element("thead", {}, element("tr", {}, head("", model.multi_label ? "Label" : "Class"), head("mfgs", "mfgs"), head("network", "network alone"))),
    element("tbody", {}, ...answer.top.map((one) => element("tr", {},
      element("th", { scope: "row" }, one.label, set.has(one.class) ? element("span", { class: "quiet" }, "in the set") : undefined),
      element("td", { class: "mfgs" }, percent(one.probability), bar(one.probability)),
      element("td", { class: "network" }, percent(one.network_probability), bar(one.network_probability))))));
}

function sets(model, answer) {
  const names = setNames(answer);
  if (!names) return [];
  const alpha = model.decisions?.prediction_set?.alpha;
  const means = alpha === undefined ? "" : ` Such sets miss the true class for at most ${percent(alpha)} of examples like the validation data.`;
  return [
    element("h3", {}, "Prediction set"),
    names.length === 0 ? element("p", {}, "Empty: no class is probable enough for it.")
      : element("ul", { class: "set" }, ...names.map((name) => element("li", {}, name))),
    element("p", { class: "quiet" }, means.trim()),
  ];
}

function strip(model, answer) {
  const p = answer.ood_percentile;
  const score = element("p", {}, sentence(place(answer)));
  if (p === null || p === undefined) return [score];
  const up = oodThreshold(model);
  const track = element("span", { class: "track" }, up === undefined ? undefined : element("span", { class: "beyond" }));
  const made = element("div", { class: "strip", "aria-hidden": "true" }, track,
    element("span", { class: "mark" }), element("span", { class: "value" }, percent(p)),
    element("span", { class: "ends quiet" }, element("span", {}, "in-distribution"), element("span", {}, "out-of-distribution")));
  made.style.setProperty("--at", `${100 * p}%`);
  if (up !== undefined) made.style.setProperty("--from", `${100 * up}%`);
  const beyond = up === undefined ? "" : ` Above ${percent(up)}, the shaded part, inputs are flagged as out-of-distribution.`;
  return [score, made, element("p", { class: "quiet" },
    `The score (${model.ood_score}) is ${answer.ood_score.toPrecision(3)}. The line is the fraction of validation examples with a lower score.${beyond}`)];
}

function guarantees(model) {
  const list = model.decisions?.guarantees ?? [];
  if (list.length === 0) return [];
  return [element("details", {}, element("summary", {}, "Guarantees"),
    element("ul", { class: "guarantees quiet" }, ...list.map((text) => element("li", {}, text))))];
}
