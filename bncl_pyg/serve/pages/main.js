// The three parts of the page, as tabs.
import { byId, start, tell } from "/page/common.js";
import { startTry, showThresholds } from "/page/try.js";
import { startAnnotate, openAnnotate } from "/page/annotate.js";
import { startLook, openLook } from "/page/look.js";

const TABS = ["try", "annotate", "look"];
const opened = { try: showThresholds, annotate: openAnnotate, look: openLook };

const choose = (name, focus) => {
  for (const one of TABS) {
    const tab = byId("tab-" + one);
    tab.setAttribute("aria-selected", one === name);
    tab.tabIndex = one === name ? 0 : -1;
    byId("panel-" + one).hidden = one !== name;
  }
  if (focus) byId("tab-" + name).focus();
  if (location.hash !== "#" + name) history.replaceState(null, "", "#" + name);
  tell(null);
  opened[name]();
};

const begin = async () => {
  const session = await start();
  byId("project-name").textContent = session.project || "";
  for (const name of TABS) byId("tab-" + name).addEventListener("click", () => choose(name));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const at = TABS.findIndex((name) => byId("tab-" + name) === event.target);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    choose(TABS[(at + step + TABS.length) % TABS.length], true);
  });
  addEventListener("hashchange", () => { if (TABS.includes(location.hash.slice(1))) choose(location.hash.slice(1)); });
  startTry(session);
  startAnnotate(session);
  startLook(session);
  const wanted = location.hash.slice(1);
  choose(TABS.includes(wanted) ? wanted : session.annotates ? "annotate" : "try");
  document.body.dataset.ready = "yes";
};

begin().catch(tell);
