// Annotate: one text after the other, by keys; every answer is saved before the next text appears.
import { ask, bar, byId, make, named, percent, random, search, state, svg, tell } from "/page/common.js";

// Who looks at a text: this page, also after it is loaded again; a tab that is copied from this one is somebody else.
const HOLDER = "bncl-holder";
const holder = sessionStorage.getItem(HOLDER) || random();
sessionStorage.removeItem(HOLDER);
const MATCHES = 12;
let current = null; // the text that is shown
let rows = []; // { label, description, probability, mark }
let isBusy = false;
let trained = -1;

// Who answers, for undo; it outlives the page.
const annotator = () => {
  let name = localStorage.getItem("bncl-annotator");
  if (!name) localStorage.setItem("bncl-annotator", (name = random()));
  return name;
};

const MARKS = { yes: ["✓", "yes", "true"], no: ["✗", "no", "false"], "": ["·", "not marked", "mixed"] };
const AFTER = { "": "yes", yes: "no", no: "" };

const draw = (focus) => {
  const items = rows.map((row, place) => {
    const [sign, word, checked] = MARKS[row.mark];
    const button = make("button", { type: "button", class: "choice " + row.mark, role: "checkbox", "aria-checked": checked, "data-label": row.label },
      make("kbd", { "aria-hidden": place > 8 }, place < 9 ? String(place + 1) : ""), make("span", { class: "mark", "aria-hidden": "true" }, sign),
      make("span", { class: "name" }, named(row.label), row.description && row.description !== row.label ? make("span", { class: "about", dir: "auto" }, row.description) : null),
      row.probability === null ? "" : bar(row.probability), make("span", { class: "share" }, row.probability === null ? "" : percent(row.probability)),
      make("span", { class: "unseen" }, ", " + word));
    button.addEventListener("click", () => turn(place));
    return make("li", {}, button);
  });
  byId("choices").replaceChildren(...items);
  if (focus !== undefined && items[focus]) items[focus].firstChild.focus();
};

const turn = (place, focus = true) => {
  if (!rows[place]) return;
  rows[place].mark = AFTER[rows[place].mark];
  draw(focus ? place : undefined);
  byId("annotate-state").textContent = rows[place].label + ": " + MARKS[rows[place].mark][1];
};

const take = (one, mark) => {
  const at = rows.findIndex((row) => row.label === one.label);
  if (at >= 0) rows[at].mark = mark;
  else rows.push({ label: one.label, description: one.description, probability: null, mark });
};

const show = async (text, focus = true) => {
  current = text;
  byId("answering").hidden = !text;
  byId("text").hidden = !text;
  byId("all-done").hidden = Boolean(text);
  byId("text-id").textContent = text ? text.id : "";
  byId("text").textContent = text ? text.text : "";
  byId("text").scrollTop = 0;
  byId("label-search").value = "";
  byId("matches").replaceChildren();
  rows = text ? text.labels.map((one) => ({ ...one, mark: "" })) : [];
  if (text && text.answer) {
    for (const name of text.answer.yes) take({ label: name, description: "" }, "yes");
    for (const name of text.answer.no) take({ label: name, description: "" }, "no");
  }
  draw();
  if (focus && text) {
    byId("text").focus({ preventScroll: true });
    scrollTo(0, 0);
  }
};

const score = (value) => value.toFixed(3).replace("0.", ".");

const drawGain = (trainings) => {
  const known = trainings.filter((one) => one.estimate);
  const place = byId("gain-chart");
  place.toggleAttribute("hidden", known.length < 2);
  byId("gain-legend").hidden = known.length < 2;
  if (known.length < 2) return;
  const low = Math.min(...known.flatMap((one) => [one.estimate.after.miF1, one.estimate.before.miF1]));
  const high = Math.max(...known.flatMap((one) => [one.estimate.after.miF1, one.estimate.before.miF1]), low + 0.05);
  const x = (at) => 14 + at / (known.length - 1) * 272;
  const y = (value) => 96 - (value - low) / (high - low) * 76;
  const line = (kind) => known.map((one, at) => x(at).toFixed(1) + "," + y(one.estimate[kind].miF1).toFixed(1)).join(" ");
  place.replaceChildren(
    svg("polyline", { class: "before", points: line("before") }), svg("polyline", { class: "after", points: line("after") }),
    ...known.flatMap((one, at) => ["before", "after"].map((kind) => svg("circle", { class: kind, cx: x(at).toFixed(1), cy: y(one.estimate[kind].miF1).toFixed(1), r: 4 },
      svg("title", {}, one.answers + " answers: F1 " + score(one.estimate[kind].miF1) + (kind === "before" ? " without them" : " with them"))))),
    ...known.map((one, at) => svg("text", { x: x(at).toFixed(1), y: 115, "text-anchor": "middle" }, known.length <= 8 || at % Math.ceil(known.length / 8) === 0 ? String(one.answers) : "")));
};

const showProgress = (far) => {
  byId("far").max = far.texts;
  byId("far").value = far.answered;
  const kinds = [[far.partial, "in part"], [far.unsure, "not sure"], [far.skipped, "skipped"]].filter(([count]) => count).map(([count, name]) => count + " " + name);
  byId("far-text").textContent = far.answered + " of " + far.texts + " texts answered" + (kinds.length ? " (" + kinds.join(", ") + ")" : "") + ".";
  byId("speed").textContent = far.a_minute ? far.a_minute + " a minute lately." : "";
  const last = far.trainings.filter((one) => one.estimate).pop();
  if (last) {
    const { before, after } = last.estimate;
    const gain = after.miF1 - before.miF1;
    byId("gain").textContent = "F1 on held-out answers: " + score(after.miF1) + " after " + last.answers + " answers, " + score(before.miF1) + " without them (" + (gain < 0 ? "−" : "+") + score(Math.abs(gain)) + ").";
  } else byId("gain").textContent = far.trainings.length ? "Trained; from six wholly answered texts on there is an estimate." : "Nothing is trained yet.";
  byId("training").textContent = far.training.step ? "Working behind: " + far.training.step + " …" : far.training.problem || (far.model.answers ? "The model learned from " + far.model.answers + " answers." : "");
  byId("training").dataset.trainings = far.trainings.length;
  if (trained !== far.trainings.length) { trained = far.trainings.length; drawGain(far.trainings); }
};

const next = async () => {
  const answer = await ask("POST", "/v1/annotate/next", { holder });
  await show(answer.text);
  showProgress(answer.progress);
};

// Only one thing at a time; an answer that could not be saved stays on the screen.
const alone = async (work) => {
  if (isBusy) return;
  isBusy = true;
  try {
    await work();
    tell(null);
  } catch (error) { tell(error); } finally { isBusy = false; }
};

let pending = null; // { key, body }: the same answer has the same key until it is saved
const save = (kind, isWhole = true, none = false) => alone(async () => {
  if (!current) return;
  const marked = (mark) => (kind === "answer" && !none ? rows.filter((row) => row.mark === mark).map((row) => row.label) : []);
  const body = { holder, annotator: annotator(), text: current.id, yes: marked("yes"), no: isWhole ? [] : marked("no"), is_whole: isWhole, kind };
  if (kind === "answer" && !isWhole && !body.yes.length && !body.no.length) { byId("annotate-state").textContent = "Nothing is marked."; return; }
  const same = JSON.stringify(body);
  if (!pending || pending.same !== same) pending = { same, key: random() };
  try {
    await ask("POST", "/v1/annotate/answers", { ...body, key: pending.key });
  } catch (error) {
    if (error.status !== 409) throw error;
    byId("annotate-state").textContent = error.message;
    await next();
    return;
  }
  pending = null;
  const what = { unsure: "Not sure", skip: "Skipped" }[kind] || (body.yes.length ? "Saved: " + body.yes.join(", ") : isWhole ? "Saved: none of these" : "Saved in part");
  byId("annotate-state").textContent = what + ".";
  await next();
});

const undo = () => alone(async () => {
  const answer = await ask("POST", "/v1/annotate/undo", { holder, annotator: annotator() });
  showProgress(answer.progress);
  if (answer.text) {
    await show(answer.text);
    byId("annotate-state").textContent = "Taken back.";
  } else byId("annotate-state").textContent = "There is nothing to take back.";
});

const find = async () => {
  const wanted = byId("label-search").value.trim();
  const matches = wanted ? await search(wanted, MATCHES) : [];
  byId("matches").replaceChildren(...matches.map((one) => {
    const button = make("button", { type: "button", class: "match" }, named(one.label), one.description !== one.label ? make("span", { class: "about", dir: "auto" }, one.description) : null);
    button.addEventListener("click", () => pick(one));
    return make("li", {}, button);
  }));
  if (wanted && !matches.length) byId("matches").replaceChildren(make("li", { class: "hint" }, "No label matches."));
  return matches;
};

const pick = (one) => {
  take(one, "yes");
  byId("label-search").value = "";
  byId("matches").replaceChildren();
  draw(rows.findIndex((row) => row.label === one.label));
  byId("annotate-state").textContent = one.label + ": yes";
};

const step = (by) => {
  const buttons = [...byId("choices").querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const to = at < 0 ? (by > 0 ? 0 : buttons.length - 1) : Math.max(0, Math.min(buttons.length - 1, at + by));
  if (buttons[to]) buttons[to].focus();
};

const onKey = (event) => {
  if (byId("panel-annotate").hidden || !state.session.annotates || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = document.activeElement;
  if (at && at.matches("input, select, textarea, summary")) {
    if (at.id === "label-search" && event.key === "Escape") { at.value = ""; find().catch(tell); byId("text").focus(); }
    if (at.id === "label-search" && event.key === "Enter") { event.preventDefault(); find().then((matches) => matches[0] && pick(matches[0])).catch(tell); }
    return;
  }
  const isChoice = at && at.classList.contains("choice");
  // Buttons and links other than labels do what they always do.
  if (at && at.matches("button, a") && !isChoice && ["Enter", " "].includes(event.key)) return;
  const keys = {
    Enter: () => save("answer", !event.shiftKey), n: () => save("answer", true, true), "?": () => save("unsure"), s: () => save("skip"), u: undo,
    "/": () => byId("label-search").focus(), ArrowDown: () => step(1), ArrowUp: () => step(-1), " ": () => (isChoice ? turn(rows.findIndex((row) => row.label === at.dataset.label)) : step(1)),
  };
  const isNumber = /^[1-9]$/.test(event.key);
  if (at && at.matches("[role=tab]") && event.key.startsWith("Arrow")) return;
  if (!isNumber && !keys[event.key]) return;
  event.preventDefault();
  if (event.repeat && !event.key.startsWith("Arrow")) return;
  if (isNumber) turn(Number(event.key) - 1, false);
  else keys[event.key]();
};

const watch = async () => {
  if (!byId("panel-annotate").hidden && !document.hidden) {
    try { showProgress(await ask("GET", "/v1/annotate/progress")); } catch { /* the next answer tells it */ }
  }
  setTimeout(watch, 1500);
};

const bring = async (event) => {
  event.preventDefault();
  const file = byId("import-file").files[0];
  try {
    const done = await ask("POST", "/v1/annotate/import?format=" + byId("import-format").value, file);
    byId("import-state").textContent = done.new + (done.new === 1 ? " answer is new." : " answers are new.");
    await alone(next);
  } catch (error) { byId("import-state").textContent = error.message; }
};

export const openAnnotate = () => { if (state.session.annotates && !current) alone(next); };

export const startAnnotate = (session) => {
  byId("annotate").hidden = !session.annotates;
  byId("no-project").hidden = session.annotates;
  if (!session.annotates) return;
  document.addEventListener("keydown", onKey);
  byId("save").addEventListener("click", () => save("answer"));
  byId("save-part").addEventListener("click", () => save("answer", false));
  byId("none").addEventListener("click", () => save("answer", true, true));
  byId("unsure").addEventListener("click", () => save("unsure"));
  byId("skip").addEventListener("click", () => save("skip"));
  byId("undo").addEventListener("click", undo);
  byId("train").addEventListener("click", () => ask("POST", "/v1/annotate/train", {}).then(() => { byId("training").textContent = "Working behind …"; }).catch(tell));
  byId("label-search").addEventListener("input", () => find().catch(tell));
  byId("import-form").addEventListener("submit", bring);
  setInterval(() => { if (current) ask("POST", "/v1/annotate/renew", { holder }).catch(() => {}); }, 45000);
  addEventListener("pagehide", () => sessionStorage.setItem(HOLDER, holder));
  addEventListener("pageshow", (event) => { if (event.persisted) { sessionStorage.removeItem(HOLDER); current = null; openAnnotate(); } });
  watch();
};
