// What all parts of the page share. Names and texts are only ever put in as text, never as markup.
export const byId = (name) => document.getElementById(name);

export const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children.filter((child) => child !== null));
  return element;
};

export const svg = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

export const percent = (share) => (100 * share).toFixed(share > 0 && share < 0.01 ? 1 : 0) + "%";

// A name of somebody else's, which may be written from right to left, keeps to itself.
export const named = (name) => make("bdi", {}, name);

export const bar = (share, kind = "") => {
  const inside = make("i", { class: kind });
  inside.style.width = Math.max(0, Math.min(100, 100 * share)).toFixed(1) + "%";
  return make("span", { class: "gauge", "aria-hidden": "true" }, inside);
};

export const random = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
};

export const state = { csrf: "", session: null };

export class Problem extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export const ask = async (method, path, body) => {
  const isFile = body instanceof Blob;
  const headers = { "X-BNCL-CSRF": state.csrf };
  if (body !== undefined) headers["Content-Type"] = isFile ? "application/octet-stream" : "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined || isFile ? body : JSON.stringify(body) });
  } catch {
    throw new Problem(0, "The server does not answer. What you see is not saved yet.");
  }
  if (response.status === 401) { location.href = "/signin"; throw new Problem(401, "Sign in first."); }
  const content = await response.json().catch(() => ({ error: "The server's answer cannot be read." }));
  if (!response.ok) throw new Problem(response.status, content.error || "The server failed.");
  return content;
};

export const tell = (error) => {
  const place = byId("problem");
  place.textContent = error ? error.message : "";
  place.hidden = !error;
};

export const start = async () => {
  state.session = await ask("GET", "/v1/session");
  state.csrf = state.session.csrf;
  return state.session;
};

let listed = null;
// All labels, or as many as the server lists at once; where there are more, it is asked for what is searched.
export const labels = async () => {
  if (listed === null) listed = await ask("GET", "/v1/labels");
  return listed;
};
export const search = async (wanted, most) => {
  const all = await labels();
  if (all.count > all.labels.length) return (await ask("GET", "/v1/labels?most=" + most + "&search=" + encodeURIComponent(wanted))).labels;
  const small = wanted.toLowerCase();
  return all.labels.filter((one) => (one.label + " " + one.description).toLowerCase().includes(small)).slice(0, most);
};
