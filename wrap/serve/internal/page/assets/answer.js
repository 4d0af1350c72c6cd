// What stands under Answer: the elements that show what POST /v1/predict gave.

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
  mf0: "mfgs: the mean-field probabilities that this bundle serves.",
  ts: "mfgs: this bundle serves temperature scaling, by what its held-out data showed.",
  mle: "This bundle serves the network's own probabilities: its held-out data did not show better ones.",
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

// reasons say in words why an answer is better not relied on.
function reasons(model, answer) {
  const rules = model.decisions ?? {}, told = answer.abstain_reason ?? "", list = [];
  if (told.includes("doubtful")) {
    const enough = rules.doubt && model.multi_label === false
      ? `, and this bundle answers from ${percent(1 - rules.doubt.threshold)} on` : "";
    list.push(["Doubtful", `the confidence is ${percent(answer.confidence)}${enough}.`]);
  }
  if (told.includes("unfamiliar")) {
    const up = familiarUpTo(model);
    const enough = up === undefined ? "" : `, and this bundle answers up to ${percent(up)}`;
    list.push(["Unfamiliar", `${place(answer)}${enough}.`]);
  }
  return list;
}

// familiarUpTo is the share of held-out examples that are not held to be unfamiliar.
function familiarUpTo(model) {
  const rule = model.decisions?.unfamiliar;
  return rule && rule.examples > 0 ? rule.accepted / rule.examples : undefined;
}

// place says where a score lies among those of the held-out examples.
function place(answer) {
  const p = answer.ood_percentile;
  if (p === null || p === undefined) return `its score is ${answer.ood_score.toPrecision(3)}`;
  if (p === 1) return "stranger than all held-out examples";
  if (p === 0) return "no stranger than any held-out example";
  return `stranger than ${percent(p)} of the held-out examples`;
}

function setNames(answer) {
  return answer.prediction_set_names ?? answer.prediction_set?.map(String);
}

// summary is what a screen reader is told at once.
export function summary(model, answer) {
  const [word, sentence] = verdict(model, answer);
  const parts = [`${word}, ${sentence}.`];
  if (answer.abstain === true) parts.push("Better not answered.", ...reasons(model, answer).map(([name, text]) => `${name}: ${text}`));
  if (answer.abstain === false) parts.push("Answered.");
  const set = setNames(answer);
  if (set) parts.push(set.length > 0 ? `Prediction set: ${set.join(", ")}.` : "The prediction set is empty.");
  if (answer.abstain !== true) parts.push(`It is ${place(answer)}.`);
  return parts.join(" ");
}

// show puts an answer into a place. said is what the file itself says of the class, or undefined.
export function show(at, model, answer, said) {
  const [word, sentence] = verdict(model, answer);
  at.replaceChildren(...[
    element("p", { class: "verdict" }, answer.abstain === true ? `${word}?` : word),
    element("p", {}, sentence),
    said === undefined ? undefined : element("p", { class: "quiet" }, `The file itself says: ${nameOf(answer, said)}`),
    decision(model, answer),
    element("h3", {}, "Probabilities"), bars(model, answer),
    ...sets(model, answer),
    element("h3", {}, "How familiar it is"), ...strip(model, answer),
    ...promises(model),
  ].filter((part) => part !== undefined));
}

// nameOf is the name of a class that a file gives by name or number.
function nameOf(answer, said) {
  const text = typeof said === "string" ? said : JSON.stringify(said);
  return answer.top.find((one) => String(one.class) === text)?.label ?? text;
}

function decision(model, answer) {
  if (answer.abstain === undefined) {
    return element("p", { class: "quiet" }, "This bundle does not decide what is better not answered.");
  }
  if (!answer.abstain) return element("p", {}, "Answered: neither doubtful nor unfamiliar by the thresholds of this bundle.");
  return element("ul", { class: "reasons" }, element("li", {}, element("strong", {}, "Better not answered.")),
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
  const means = alpha === undefined ? "" : ` Sets like this miss the right class of at most ${percent(alpha)} of examples like those held out.`;
  return [
    element("h3", {}, "Prediction set"),
    names.length === 0 ? element("p", {}, "Empty: no class is probable enough for it.")
      : element("ul", { class: "set" }, ...names.map((name) => element("li", {}, name))),
    element("p", { class: "quiet" }, means.trim()),
  ];
}

function strip(model, answer) {
  const p = answer.ood_percentile;
  const said = place(answer);
  const sentence = element("p", {}, `${said[0].toUpperCase()}${said.slice(1)}.`);
  if (p === null || p === undefined) return [sentence];
  const up = familiarUpTo(model);
  const track = element("span", { class: "track" }, up === undefined ? undefined : element("span", { class: "beyond" }));
  const made = element("div", { class: "strip", "aria-hidden": "true" }, track,
    element("span", { class: "mark" }), element("span", { class: "value" }, percent(p)),
    element("span", { class: "ends quiet" }, element("span", {}, "familiar"), element("span", {}, "strange")));
  made.style.setProperty("--at", `${100 * p}%`);
  if (up !== undefined) made.style.setProperty("--from", `${100 * up}%`);
  const beyond = up === undefined ? "" : ` The tinted part, above ${percent(up)}, is held to be unfamiliar.`;
  return [sentence, made, element("p", { class: "quiet" },
    `Its score, ${model.ood_score}, is ${answer.ood_score.toPrecision(3)}; the line is the share of held-out examples that score lower.${beyond}`)];
}

function promises(model) {
  const list = model.decisions?.promises ?? [];
  if (list.length === 0) return [];
  return [element("details", {}, element("summary", {}, "What this bundle promises"),
    element("ul", { class: "promises quiet" }, ...list.map((text) => element("li", {}, text))))];
}
