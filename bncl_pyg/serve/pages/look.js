// Look: the signed label graph, the texts of a label, and the report.
import { ask, byId, make, named, percent, state, svg, tell } from "/page/common.js";

const STRONGEST = 3;
const size = { width: 1000, height: 660, margin: 60 };
let graph = null;
let version = -1;

const place = (node) => ({ x: size.margin + node.x * (size.width - 2 * size.margin), y: size.margin + (1 - node.y) * (size.height - 2 * size.margin) });

// At rest only the strongest edges of a label are drawn; all of its own when it is chosen.
const strongest = () => {
  const drawn = new Map();
  const count = (end, sign) => drawn.get(end + "/" + sign) || 0;
  const kept = new Set();
  for (const edge of [...graph.edges].sort((a, b) => b[2] * b[3] - a[2] * a[3])) {
    const [one, other, sign] = edge;
    const least = sign > 0 ? Math.min : Math.max;
    if (least(count(one, sign), count(other, sign)) >= STRONGEST) continue;
    kept.add(edge);
    for (const end of [one, other]) drawn.set(end + "/" + sign, count(end, sign) + 1);
  }
  return kept;
};

const shorten = (name) => { const letters = Array.from(name); return letters.length <= 22 ? name : letters.slice(0, 21).join("") + "…"; };

// On a phone the picture is taller than wide.
const arrange = () => {
  const width = byId("graph").clientWidth < 600 ? 560 : 1000;
  if (width === size.width && byId("graph").childElementCount) { nameNodes(); return; }
  size.width = width;
  byId("graph").setAttribute("viewBox", "0 0 " + width + " " + size.height);
  drawGraph();
  const at = byId("graph-label").value;
  if (at) mark(Number(at));
};

// Of names that would cover each other, those of rarer labels are left out.
const nameNodes = () => {
  const pixels = byId("graph").clientWidth / size.width || 1;
  const letters = Math.max(15, 12 / pixels);
  const taken = [];
  const nodes = [...byId("graph").querySelectorAll(".node")].sort((a, b) => b.classList.contains("chosen") - a.classList.contains("chosen") || b.dataset.given - a.dataset.given);
  for (const node of nodes) {
    const text = node.querySelector("text");
    const { x, y } = place(graph.nodes[Number(node.dataset.place)]);
    const half = 0.3 * letters * text.textContent.length;
    const lean = x < half ? half - x : x > size.width - half ? size.width - half - x : 0;
    text.style.fontSize = letters + "px";
    text.setAttribute("x", lean.toFixed(1));
    const box = [x + lean - half, x + lean + half, y - 2.2 * letters, y];
    const covers = taken.some((other) => box[0] < other[1] && box[1] > other[0] && box[2] < other[3] && box[3] > other[2]);
    text.style.display = covers ? "none" : "";
    if (!covers) taken.push(box);
  }
};

const drawGraph = () => {
  const kept = strongest();
  const lines = graph.edges.map((edge) => {
    const [one, other, sign] = edge;
    const a = place(graph.nodes[one]);
    const b = place(graph.nodes[other]);
    return svg("line", { class: "edge " + (sign > 0 ? "friend" : "enemy") + (kept.has(edge) ? "" : " weak"), "data-a": one, "data-b": other, x1: a.x.toFixed(1), y1: a.y.toFixed(1), x2: b.x.toFixed(1), y2: b.y.toFixed(1) });
  });
  const nodes = graph.nodes.map((node, at) => {
    const { x, y } = place(node);
    const radius = 5 + 14 * Math.sqrt(node.given / Math.max(graph.texts, 1));
    const group = svg("g", { class: "node", "data-place": at, "data-given": node.given, transform: "translate(" + x.toFixed(1) + " " + y.toFixed(1) + ")", role: "button", tabindex: "0", "aria-label": node.label + ", given to " + node.given + " texts" },
      svg("circle", { r: radius.toFixed(1) }), svg("text", { y: (-radius - 4).toFixed(1) }, shorten(node.label)), svg("title", {}, node.label));
    group.addEventListener("click", () => choose(at));
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(at); } });
    return group;
  });
  byId("graph").replaceChildren(...lines, ...nodes);
  nameNodes();
};

const mark = (at) => {
  const near = new Set();
  for (const line of byId("graph").querySelectorAll(".edge")) {
    const ends = [Number(line.dataset.a), Number(line.dataset.b)];
    const touches = ends.includes(at);
    line.classList.toggle("near", touches);
    if (touches) ends.forEach((end) => near.add(end));
  }
  byId("graph").classList.toggle("picked", at >= 0);
  for (const node of byId("graph").querySelectorAll(".node")) {
    const own = Number(node.dataset.place);
    node.classList.toggle("chosen", own === at);
    node.classList.toggle("near", near.has(own));
  }
  nameNodes();
};

const sample = (one) => make("li", {}, make("span", { class: "id", dir: "auto" }, one.id),
  make("span", { class: "chip " + (one.answered === null ? "given" : one.answered ? "right" : "wrong") }, (one.answered === null ? "" : one.answered ? "✓ answered yes, " : "✗ answered no, ") + percent(one.probability)),
  make("p", { dir: "auto" }, one.text.length > 400 ? Array.from(one.text).slice(0, 400).join("") + "…" : one.text));

const choose = async (at, focus = true) => {
  const node = graph.nodes[at];
  if (!node) return;
  mark(at);
  byId("graph-label").value = String(at);
  try {
    const { texts } = await ask("GET", "/v1/look/texts?label=" + encodeURIComponent(node.label));
    byId("label-texts-title").replaceChildren(named(node.label), " (" + texts.length + (texts.length === 50 ? " surest" : "") + (texts.length === 1 ? " text)" : " texts)"));
    byId("label-texts").replaceChildren(...texts.map(sample));
    if (focus) byId("label-texts-title").focus({ preventScroll: innerWidth > 760 });
  } catch (error) { tell(error); }
};

const loadReport = () => {
  const address = "/look/report?about=" + byId("report-about").value;
  byId("report-link").href = address;
  byId("report-state").textContent = "Being made …";
  byId("report").src = address;
};

export const openLook = async () => {
  if (!state.session.annotates) return;
  try {
    const { model } = await ask("GET", "/v1/session");
    if (graph && model.version === version) { arrange(); return; }
    graph = await ask("GET", "/v1/look/graph");
    version = model.version;
    byId("graph-note").textContent = graph.note;
    const order = graph.nodes.map((node, at) => [node.label, at]).sort((a, b) => a[0].localeCompare(b[0]));
    byId("graph-label").replaceChildren(...order.map(([name, at]) => make("option", { value: at, dir: "auto" }, name)));
    byId("graph").replaceChildren();
    arrange();
    const common = graph.nodes.reduce((best, node, at) => (node.given > graph.nodes[best].given ? at : best), 0);
    await choose(common, false);
    loadReport();
  } catch (error) { tell(error); }
};

export const startLook = (session) => {
  byId("look").hidden = !session.annotates;
  byId("no-look").hidden = session.annotates;
  if (!session.annotates) return;
  byId("graph-label").addEventListener("input", (event) => choose(Number(event.target.value), false));
  byId("report-about").addEventListener("input", loadReport);
  byId("report-load").addEventListener("click", loadReport);
  byId("report").addEventListener("load", () => { byId("report-state").textContent = ""; });
  new ResizeObserver(() => { if (graph) arrange(); }).observe(byId("graph"));
};
