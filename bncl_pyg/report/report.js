"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { labels, texts, edges, n_texts: total, has_truth: hasTruth } = data;
  const ROWS = 20;
  const byId = (id) => document.getElementById(id);

  // Text only ever becomes text: nothing that a text or a label says is read as HTML.
  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const percent = (share) => {
    const number = 100 * share;
    return (number === 0 ? "0" : number < 0.1 ? number.toPrecision(1) : number < 10 ? number.toFixed(1) : number.toFixed(0)) + "%";
  };
  const score = (value) => (value === null ? "" : value.toFixed(2));

  // The label table.
  const columns = [
    { key: "name", title: "Label", value: (row) => row.name.toLowerCase(), ascending: true },
    { key: "given", title: "Given", value: (row) => row.given, number: true, hint: "texts that are given the label" },
    { key: "expected", title: "Expected", value: (row) => row.expected, number: true, wide: true, hint: "share of texts that should have it" },
    ...(hasTruth ? [
      { key: "support", title: "True", value: (row) => row.support, number: true, wide: true, hint: "texts that have it" },
      { key: "precision", title: "Precision", value: (row) => row.precision, number: true, wide: true, hint: "of the texts given it, the share that has it" },
      { key: "recall", title: "Recall", value: (row) => row.recall, number: true, wide: true, hint: "of the texts that have it, the share given it" },
      { key: "F1", title: "F1", value: (row) => row.F1, number: true, hint: "of precision and recall" },
    ] : []),
    { key: "words", title: "Typical words", wide: true },
  ];
  const filters = [
    ["all labels", () => true],
    ["never given", (row) => row.given === 0],
    ["given twice as often as expected, or more", (row) => row.given / total >= 2 * row.expected && row.given > 0],
    ["given half as often as expected, or less", (row) => row.given / total <= row.expected / 2],
    ...(hasTruth ? [["F1 below 0.5, though true somewhere", (row) => row.support > 0 && row.F1 < 0.5]] : []),
  ];
  const table = byId("label-table");
  const search = byId("label-search");
  const filter = byId("label-filter");
  const sorter = byId("label-sort");
  const state = { key: "given", ascending: false, shown: ROWS, open: new Set() };
  labels.forEach((row, place) => { row.place = place; row.haystack = [row.name, row.description, ...row.words].join("\n").toLowerCase(); });
  filters.forEach(([name], place) => filter.append(make("option", { value: place }, name)));

  const head = table.tHead.rows[0];
  for (const column of columns) {
    const cell = make("th", { scope: "col", class: [column.number ? "num" : "", column.wide ? "wide" : ""].join(" ").trim() || null });
    if (column.value) {
      const button = make("button", { type: "button", title: column.hint, "data-sort": column.key }, column.title);
      button.addEventListener("click", () => sortBy(column.key));
      cell.append(button);
      sorter.append(make("option", { value: column.key }, column.title));
    } else cell.append(column.title);
    column.cell = cell;
    head.append(cell);
  }
  const sortBy = (key) => {
    const column = columns.find((one) => one.key === key);
    state.ascending = state.key === key ? !state.ascending : Boolean(column.ascending);
    state.key = key;
    draw();
  };
  const chosenRows = () => {
    const wanted = search.value.trim().toLowerCase();
    const [, accepts] = filters[Number(filter.value) || 0];
    const column = columns.find((one) => one.key === state.key);
    const sign = state.ascending ? 1 : -1;
    const compare = (a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      return x < y ? -sign : x > y ? sign : a.place - b.place;
    };
    const rows = labels.filter((row) => accepts(row) && row.haystack.includes(wanted)).sort(compare);
    if (!wanted) return rows;
    // Whose name is looked for stands first.
    const rank = (row) => (row.name.toLowerCase() === wanted ? 0 : row.name.toLowerCase().includes(wanted) ? 1 : 2);
    return state.sortedSinceSearch ? rows : rows.sort((a, b) => rank(a) - rank(b));
  };
  const labelButton = (place) => {
    const button = make("button", { type: "button", class: "plain" }, labels[place].name);
    button.addEventListener("click", () => showLabel(place));
    return button;
  };
  const chips = (text) => {
    const truth = text.true === null ? null : new Set(text.true);
    const parts = text.given.map(([place, share]) => {
      const kind = truth === null ? "given" : truth.has(place) ? "right" : "wrong";
      const mark = truth === null ? "" : truth.has(place) ? "✓ " : "✗ ";
      return make("span", { class: "chip " + kind }, mark + labels[place].name + " " + percent(share));
    });
    if (truth !== null) {
      const given = new Set(text.given.map(([place]) => place));
      text.true.filter((place) => !given.has(place)).forEach((place) => parts.push(make("span", { class: "chip missed" }, "missed: " + labels[place].name)));
    }
    if (!parts.length) parts.push(make("span", { class: "chip" }, "no label"));
    return parts;
  };
  const sample = (text) => make("div", { class: "sample" }, make("span", { class: "id" }, text.id), text.text === null ? null : make("p", {}, text.text), make("div", {}, ...chips(text)));
  const details = (row) => {
    const cell = make("td", { colspan: columns.length });
    if (row.description) cell.append(make("p", {}, row.description));
    const figures = [row.given + " texts are given it (" + percent(row.given / total) + "), " + percent(row.expected) + " expected"];
    if (hasTruth) figures.push(row.support + " texts have it; precision " + score(row.precision) + ", recall " + score(row.recall) + ", F1 " + score(row.F1));
    figures.push(row.friends + (row.friends === 1 ? " friend, " : " friends, ") + row.enemies + (row.enemies === 1 ? " enemy" : " enemies") + " in the label graph");
    cell.append(make("p", { class: "hint" }, figures.join(". ") + "."));
    if (row.words.length) cell.append(make("p", { class: "hint" }, "Typical words: " + row.words.join(", ")));
    if (nodes.has(row.place)) {
      const button = make("button", { type: "button" }, "Show in the graph");
      button.addEventListener("click", () => { pick(row.place, true); byId("label-graph").scrollIntoView(); });
      cell.append(button);
    }
    row.examples.forEach((example) => cell.append(sample(texts[example.text])));
    if (!row.examples.length) cell.append(make("p", { class: "hint" }, row.given ? "No example is kept of this label." : "No text is given this label."));
    return make("tr", { class: "opened" }, cell);
  };
  const cellOf = (column, row) => {
    const kind = [column.number ? "num" : "", column.wide ? "wide" : ""].join(" ").trim() || null;
    if (column.key === "name") {
      const button = make("button", { type: "button", class: "plain", "aria-expanded": state.open.has(row.place) }, row.name);
      button.addEventListener("click", () => toggle(row.place));
      return make("td", { class: kind }, button, row.description ? make("span", { class: "about" }, row.description.length > 90 ? row.description.slice(0, 89) + "…" : row.description) : null);
    }
    if (column.key === "given") return make("td", { class: kind }, row.given + " (" + percent(row.given / total) + ")");
    if (column.key === "expected") return make("td", { class: kind }, percent(row.expected));
    if (column.key === "words") return make("td", { class: kind }, row.words.slice(0, 5).join(", "));
    if (column.key === "F1") {
      const bar = make("span", { class: "share", "aria-hidden": "true" });
      bar.style.setProperty("--share", (100 * row.F1).toFixed(0) + "%");
      return make("td", { class: kind }, score(row.F1), bar);
    }
    return make("td", { class: kind }, column.key === "support" ? String(row.support) : score(row[column.key]));
  };
  const draw = () => {
    for (const column of columns) {
      if (column.key === state.key) column.cell.setAttribute("aria-sort", state.ascending ? "ascending" : "descending");
      else column.cell.removeAttribute("aria-sort");
    }
    sorter.value = state.key;
    const rows = chosenRows();
    const body = document.createDocumentFragment();
    for (const row of rows.slice(0, state.shown)) {
      body.append(make("tr", { "data-label": row.place }, ...columns.map((column) => cellOf(column, row))));
      if (state.open.has(row.place)) body.append(details(row));
    }
    table.tBodies[0].replaceChildren(body);
    byId("label-more").hidden = rows.length <= state.shown;
    byId("label-count").textContent = Math.min(state.shown, rows.length) + " of " + rows.length + (rows.length === 1 ? " label" : " labels");
  };
  const focusRow = (place) => {
    const button = table.querySelector('tr[data-label="' + place + '"] button');
    if (button) button.focus();
  };
  const toggle = (place) => {
    if (!state.open.delete(place)) state.open.add(place);
    draw();
    focusRow(place);
  };
  const showLabel = (place) => {
    search.value = labels[place].name;
    filter.value = "0";
    state.sortedSinceSearch = false;
    state.open = new Set([place]);
    draw();
    byId("labels").scrollIntoView();
    focusRow(place);
  };
  search.addEventListener("input", () => { state.shown = ROWS; state.sortedSinceSearch = false; draw(); });
  filter.addEventListener("input", () => { state.shown = ROWS; draw(); });
  sorter.addEventListener("input", () => { state.key = ""; state.sortedSinceSearch = true; sortBy(sorter.value); });
  head.addEventListener("click", () => { state.sortedSinceSearch = true; draw(); });
  byId("label-more").addEventListener("click", () => { state.shown += 5 * ROWS; draw(); });
  // On paper there is no button to press.
  window.addEventListener("beforeprint", () => { state.shown = Math.max(state.shown, 500); draw(); });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-show]");
    if (link) showLabel(Number(link.dataset.show));
  });

  // The label graph.
  const svg = byId("graph");
  const content = byId("graph-content");
  const panel = byId("graph-panel");
  const nodes = new Map([...content.querySelectorAll(".node")].map((node) => [Number(node.dataset.label), node]));
  const drawn = new Map([...nodes].map(([place, node]) => {
    const { e, f } = node.transform.baseVal.consolidate().matrix;
    return [place, { x: e, y: f }];
  }));
  const lines = [...content.querySelectorAll(".edge")];
  const places = new Map();
  let height = 660;
  // On a phone the picture is taller than wide: labels move to where there is room.
  const arrange = () => {
    height = Math.round(1000 * svg.clientHeight / (svg.clientWidth || 1)) || 660;
    svg.setAttribute("viewBox", "0 0 1000 " + height);
    for (const [place, { x, y }] of drawn) {
      const at = { x, y: y * height / 660 };
      places.set(place, at);
      nodes.get(place).setAttribute("transform", "translate(" + at.x + " " + at.y.toFixed(1) + ")");
    }
    for (const line of lines) {
      line.setAttribute("y1", places.get(Number(line.dataset.a)).y.toFixed(1));
      line.setAttribute("y2", places.get(Number(line.dataset.b)).y.toFixed(1));
    }
    name();
  };
  const byGiven = [...nodes].sort((a, b) => b[1].dataset.given - a[1].dataset.given);
  const view = { x: 0, y: 0, scale: 1 };
  let chosen = null;
  let near = new Set();
  const pixels = () => { const matrix = svg.getScreenCTM(); return matrix ? matrix.a || 1 : 1; };
  const toView = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return { x: point.x, y: point.y };
  };
  // Names have the same size however far one has zoomed; those that would cover another are left out, the rarer first.
  const name = () => {
    const size = 12 / (pixels() * view.scale);
    const first = byGiven.filter(([place]) => place === chosen || near.has(place));
    const order = chosen === null ? byGiven : [...first, ...byGiven.filter(([place]) => place !== chosen && !near.has(place))];
    const taken = [];
    for (const [place, node] of order) {
      const text = node.querySelector("text");
      const circle = node.querySelector("circle");
      const shrink = 1 / Math.sqrt(view.scale) / Math.max(1, Math.min(1.6, pixels()));
      const radius = Math.max(Number(circle.dataset.r) * shrink, 3 / (pixels() * view.scale));
      circle.setAttribute("r", radius.toFixed(2));
      text.style.fontSize = size + "px";
      text.setAttribute("y", (-radius - size / 3).toFixed(2));
      const { x, y } = places.get(place);
      const half = 0.3 * size * text.textContent.length;
      // At the border a name leans inwards.
      const lean = x < half ? half - 2 * radius : x > 1000 - half ? 2 * radius - half : 0;
      text.style.textAnchor = lean > 0 ? "start" : lean < 0 ? "end" : "middle";
      text.setAttribute("x", lean > 0 ? -radius : lean < 0 ? radius : 0);
      const box = [x - half + lean, x + half + lean, y - radius - 1.4 * size, y - radius];
      const covers = taken.some((other) => box[0] < other[1] && box[1] > other[0] && box[2] < other[3] && box[3] > other[2]);
      const isHidden = place !== chosen && covers;
      node.classList.toggle("hidden-text", isHidden);
      if (!isHidden) taken.push(box);
    }
  };
  const move = () => {
    view.scale = Math.min(12, Math.max(0.6, view.scale));
    content.setAttribute("transform", "translate(" + view.x.toFixed(2) + " " + view.y.toFixed(2) + ") scale(" + view.scale.toFixed(4) + ")");
    name();
  };
  const zoom = (factor, at) => {
    const middle = at || { x: 500, y: height / 2 };
    const before = view.scale;
    view.scale = Math.min(12, Math.max(0.6, before * factor));
    view.x = middle.x - (middle.x - view.x) * view.scale / before;
    view.y = middle.y - (middle.y - view.y) * view.scale / before;
    move();
  };
  const all = () => { Object.assign(view, { x: 0, y: 0, scale: 1 }); move(); };
  const neighbours = (place, sign) => edges
    .filter((edge) => edge[2] === sign && (edge[0] === place || edge[1] === place))
    .sort((a, b) => sign * (b[3] - a[3]))
    .map((edge) => [edge[0] === place ? edge[1] : edge[0], edge[3]]);
  const neighbourList = (title, ends) => {
    const list = make("ul");
    for (const [place, cosine] of ends) {
      const button = make("button", { type: "button", class: "plain" }, labels[place].name);
      button.addEventListener("click", () => pick(place, true));
      list.append(make("li", {}, button, " " + cosine.toFixed(2).replace("-0.00", "0.00")));
    }
    return [make("h3", {}, title + " (" + ends.length + ")"), ends.length ? list : make("p", { class: "hint" }, "none drawn")];
  };
  const pick = (place, centre) => {
    chosen = place;
    near = new Set();
    content.classList.toggle("picked", place !== null);
    for (const line of lines) {
      const ends = [Number(line.dataset.a), Number(line.dataset.b)];
      const touches = place !== null && ends.includes(place);
      line.classList.toggle("near", touches);
      if (touches) ends.forEach((end) => end !== place && near.add(end));
    }
    for (const [one, node] of nodes) {
      node.classList.toggle("chosen", one === place);
      node.classList.toggle("near", near.has(one));
    }
    if (place === null) {
      panel.replaceChildren(make("p", { class: "hint" }, "Select a label to see its friends and enemies."));
    } else {
      const row = labels[place];
      const table = make("button", { type: "button" }, "Show in the table");
      table.addEventListener("click", () => showLabel(place));
      panel.replaceChildren(
        make("h3", {}, row.name), row.description ? make("p", { class: "hint" }, row.description) : "",
        make("p", { class: "hint" }, "Given to " + row.given + " texts (" + percent(row.given / total) + ")."),
        ...neighbourList("Friends", neighbours(place, 1)), ...neighbourList("Enemies", neighbours(place, -1)), table,
      );
      if (centre) {
        const { x, y } = places.get(place);
        view.scale = Math.max(view.scale, 1.6);
        view.x = 500 - x * view.scale;
        view.y = height / 2 - y * view.scale;
      }
    }
    move();
  };
  [...nodes.keys()].sort((a, b) => labels[a].name.localeCompare(labels[b].name)).forEach((place) => byId("graph-names").append(make("option", { value: labels[place].name })));
  const finder = byId("graph-search");
  const find = (isDone) => {
    const wanted = finder.value.trim().toLowerCase();
    if (!wanted) { pick(null); return; }
    const names = [...nodes.keys()].map((place) => [place, labels[place].name.toLowerCase()]);
    const match = names.find(([, one]) => one === wanted) || (isDone && (names.find(([, one]) => one.startsWith(wanted)) || names.find(([place, one]) => one.includes(wanted) || labels[place].description.toLowerCase().includes(wanted))));
    if (match) pick(match[0], true);
    else if (isDone) panel.replaceChildren(make("p", { class: "hint" }, "No drawn label is called “" + finder.value + "”."));
  };
  finder.addEventListener("input", () => find(false));
  finder.addEventListener("change", () => find(true));
  finder.addEventListener("keydown", (event) => { if (event.key === "Enter") find(true); });
  byId("zoom-in").addEventListener("click", () => zoom(1.4));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  byId("zoom-all").addEventListener("click", () => { finder.value = ""; pick(null); all(); });
  byId("graph-enemies").addEventListener("input", (event) => content.classList.toggle("no-enemies", !event.target.checked));
  svg.addEventListener("wheel", (event) => {
    // As on maps: the page scrolls, and with Ctrl (or a pinch on a touchpad) the graph zooms; once it is in focus, always.
    if (!event.ctrlKey && document.activeElement !== svg) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), toView(event));
  }, { passive: false });
  svg.addEventListener("keydown", (event) => {
    const step = 60;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (moves[event.key]) { view.x += moves[event.key][0]; view.y += moves[event.key][1]; move(); }
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") all();
    else if (event.key === "Escape") pick(null);
    else return;
    event.preventDefault();
  });
  const pointers = new Map();
  let dragged = false;
  svg.addEventListener("pointerdown", (event) => { pointers.set(event.pointerId, toView(event)); dragged = false; });
  svg.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const now = toView(event);
    if (pointers.size === 2) {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      const distance = (a, b) => Math.hypot(a.x - b.x, a.y - b.y) || 1;
      zoom(distance(now, other) / distance(last, other), other);
      dragged = true;
    } else if (dragged || Math.hypot(now.x - last.x, now.y - last.y) > 4) {
      if (!dragged && event.pointerType !== "touch") svg.setPointerCapture(event.pointerId);
      view.x += now.x - last.x;
      view.y += now.y - last.y;
      dragged = true;
      move();
    } else return;
    pointers.set(event.pointerId, now);
  });
  for (const kind of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(kind, (event) => pointers.delete(event.pointerId));
  svg.addEventListener("click", (event) => {
    if (dragged) return;
    const node = event.target.closest(".node");
    pick(node ? Number(node.dataset.label) : null);
  });
  draw();
  arrange();
  move();
  new ResizeObserver(arrange).observe(svg);
})();
