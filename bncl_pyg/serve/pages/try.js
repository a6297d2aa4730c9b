// Try: a text, its labels and why; thresholds; labels from their words alone.
import { ask, bar, byId, labels, make, named, percent, state, tell } from "/page/common.js";

const SHOWN = 10;
const PARTS = 7;
let asked = 0;
let predicted = null; // { text, labels, given }
let chosen = null;
let tried = [];
let steps = [];
let thresholds = null;

const isOwn = () => byId("own-decisions").checked;
const threshold = () => Number(byId("threshold").value);
const isGiven = (one) => (isOwn() ? predicted.given.has(one.label) : one.probability >= threshold());

const showLabels = () => {
  const list = byId("try-labels");
  if (!predicted) return;
  const rows = predicted.labels.map((one) => {
    const button = make("button", { type: "button", class: "label" + (isGiven(one) ? " given" : ""), "aria-pressed": chosen === one.label },
      make("span", { class: "name" }, named(one.label)), bar(one.probability), make("span", { class: "share" }, percent(one.probability)),
      make("span", { class: "unseen" }, isGiven(one) ? ", given" : ", not given"));
    button.addEventListener("click", () => explain(one.label));
    return make("li", {}, button);
  });
  list.replaceChildren(...rows);
};

const markedText = (text, words) => {
  const letters = Array.from(text);
  const most = Math.max(...words.map((one) => Math.abs(one.value)), 0) || 1;
  const spans = words.flatMap((one) => one.spans.map(([from, to]) => [from, to, one.value])).sort((a, b) => a[0] - b[0]);
  const parts = [];
  let at = 0;
  for (const [from, to, value] of spans) {
    const share = Math.abs(value) / most;
    if (share < 0.05 || from < at) continue;
    parts.push(letters.slice(at, from).join(""));
    parts.push(make("mark", { class: (value > 0 ? "for" : "against") + " level" + Math.ceil(share * 5), title: value.toFixed(2) }, letters.slice(from, to).join("")));
    at = to;
  }
  parts.push(letters.slice(at).join(""));
  return parts;
};

const showWhy = (text, why) => {
  byId("why").hidden = false;
  byId("why-label").textContent = why.label;
  byId("why-verdict").textContent = (why.is_predicted ? "Given" : "Not given") + ": the parts below add up to " + why.logit.toFixed(2) + ", and it is given above " + why.threshold.toFixed(2) + ". Probability " + percent(why.probability) + ".";
  const words = (why.contributions.find((one) => one.name === "words") || { details: [] }).details;
  byId("why-text").replaceChildren(...markedText(text, words));
  const most = Math.max(...why.contributions.map((one) => Math.abs(one.value))) || 1;
  const rows = why.contributions.map((one) => {
    const side = one.value > 0 ? "for" : "against";
    const best = [...one.details].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, PARTS);
    return make("li", {},
      make("span", { class: "name", title: one.meaning }, one.name), bar(Math.abs(one.value) / most, side), make("span", { class: "share" }, (one.value > 0 ? "+" : "") + one.value.toFixed(2)),
      best.length ? make("span", { class: "details", dir: "auto" }, best.map((each) => each.name + " " + (each.value > 0 ? "+" : "") + each.value.toFixed(2)).join(" · ")) : null);
  });
  byId("why-parts").replaceChildren(...rows);
};

const explain = async (label) => {
  chosen = label;
  showLabels();
  const text = predicted.text;
  try {
    const answer = await ask("POST", "/v1/explain", { text, label });
    if (chosen === label && predicted.text === text) showWhy(answer.text, answer.labels[0]);
  } catch (error) { tell(error); }
};

const showTried = async () => {
  const list = byId("tried");
  const text = byId("try-text").value;
  let scored = tried.map((one) => ({ label: one.name, description: one.description, probability: null, before: null, is_new: true }));
  if (tried.length && text.trim()) scored = (await ask("POST", "/v1/try", { text, labels: tried })).labels;
  list.replaceChildren(...scored.map((one, place) => {
    const away = make("button", { type: "button", class: "small" }, "Remove", make("span", { class: "unseen" }, " " + one.label));
    away.addEventListener("click", () => { tried.splice(place, 1); showTried().catch(tell); });
    const row = make("li", { class: "tried" }, make("span", { class: "name" }, named(one.label), one.description !== one.label ? make("span", { class: "about", dir: "auto" }, one.description) : null), away);
    if (one.probability === null) row.append(make("span", { class: "hint" }, "Give a text above."));
    else if (one.before === null) row.append(bar(one.probability, "new"), make("span", { class: "share" }, percent(one.probability)), make("span", { class: "hint" }, "from its words alone"));
    else {
      const change = one.probability - one.before;
      row.append(bar(one.before, "before"), make("span", { class: "share" }, percent(one.before)), make("span", { class: "hint" }, "as it is worded now"),
        bar(one.probability, "new"), make("span", { class: "share" }, percent(one.probability)), make("span", { class: "hint" }, "reworded: " + (change < 0 ? "−" : "+") + percent(Math.abs(change)) + ", both from words alone"));
    }
    return row;
  }));
};

const predict = async () => {
  const text = byId("try-text").value;
  const number = ++asked;
  if (!text.trim()) { byId("try-state").textContent = "The text is empty."; return; }
  byId("try-state").textContent = "…";
  try {
    const [best, own] = await Promise.all([ask("POST", "/v1/predict", { text, top_k: SHOWN }), ask("POST", "/v1/predict", { text }), showTried()]);
    if (number !== asked) return;
    tell(null);
    predicted = { text, labels: best.predictions[0].labels, given: new Set(own.predictions[0].labels.map((one) => one.label)) };
    const shown = new Set(predicted.labels.map((one) => one.label));
    predicted.labels.push(...own.predictions[0].labels.filter((one) => !shown.has(one.label)));
    const count = predicted.labels.filter(isGiven).length;
    byId("try-state").textContent = count + (count === 1 ? " label" : " labels") + (best.model.answers ? ", by the model that learned from " + best.model.answers + " answers" : "");
    const first = predicted.labels.find((one) => one.label === chosen) || predicted.labels[0];
    if (first) await explain(first.label);
  } catch (error) {
    byId("try-state").textContent = "";
    tell(error);
  }
};

const showThreshold = () => {
  byId("threshold").disabled = isOwn();
  byId("threshold-value").textContent = isOwn() ? "" : percent(threshold());
  const place = byId("threshold-truth");
  if (!thresholds || !steps.length) place.textContent = state.session.annotates ? "With answered texts, precision and recall stand here." : "";
  else if (isOwn()) place.textContent = "Choose a threshold of your own for precision and recall on " + thresholds.texts + " answered texts.";
  else {
    const one = steps[Math.round(threshold() * (steps.length - 1))];
    const source = thresholds.is_held_out ? "whose answers the model did not see" : "before any training";
    place.textContent = "Precision " + (one.precision === null ? "unknown" : percent(one.precision)) + ", recall " + percent(one.recall) + " on " + thresholds.texts + " answered texts, " + source + ".";
  }
  showLabels();
};

export const showThresholds = async () => {
  if (!state.session || !state.session.annotates) return;
  try {
    thresholds = await ask("GET", "/v1/annotate/thresholds");
    steps = thresholds.steps;
    showThreshold();
  } catch (error) { tell(error); }
};

export const startTry = async () => {
  let waiting = 0;
  byId("try-run").addEventListener("click", predict);
  byId("try-text").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(predict, 500); });
  byId("try-text").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { clearTimeout(waiting); predict(); } });
  byId("own-decisions").addEventListener("input", showThreshold);
  byId("threshold").addEventListener("input", showThreshold);
  byId("tried-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const label = { name: byId("tried-name").value.trim(), description: byId("tried-description").value.trim() };
    if (!label.name) return;
    tried = [...tried.filter((one) => one.name !== label.name), label].slice(-state.session.limits.labels);
    event.target.reset();
    showTried().catch(tell);
  });
  const all = await labels();
  byId("label-names").replaceChildren(...all.labels.slice(0, 500).map((one) => make("option", { value: one.label })));
  byId("tried-name").addEventListener("change", () => {
    const known = all.labels.find((one) => one.label === byId("tried-name").value);
    if (known && !byId("tried-description").value) byId("tried-description").value = known.description;
  });
};
