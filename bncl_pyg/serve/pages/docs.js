// The OpenAPI document as a page, without any other host.
import { make, ask } from "/page/common.js";

const typeOf = (schema, all) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one, all)).join(" or ");
  if (schema.enum || schema.const) return (schema.enum || [schema.const]).map((one) => JSON.stringify(one)).join(", ");
  if (schema.type === "array") return "list of " + typeOf(schema.items, all);
  return schema.type || "anything";
};

const fields = (schema, all) => {
  const found = schema && schema.$ref ? all[schema.$ref.split("/").pop()] : schema;
  if (!found || !found.properties) return null;
  const rows = Object.entries(found.properties).map(([name, one]) => make("tr", {},
    make("td", {}, make("code", {}, name)), make("td", {}, typeOf(one, all)),
    make("td", {}, (found.required || []).includes(name) ? "needed" : ""), make("td", {}, one.description || "")));
  return make("table", {}, make("tbody", {}, ...rows));
};

const content = (part) => part && part.content && part.content["application/json"] && part.content["application/json"].schema;

const shown = (path, method, one, all) => {
  const card = make("section", { class: "card" }, make("h2", {}, make("code", {}, method.toUpperCase() + " " + path)), make("p", {}, one.description || ""));
  const parameters = (one.parameters || []).map((each) => make("tr", {}, make("td", {}, make("code", {}, each.name)), make("td", {}, typeOf(each.schema, all)), make("td", {}, each.required ? "needed" : "")));
  if (parameters.length) card.append(make("h3", {}, "Parameters"), make("table", {}, make("tbody", {}, ...parameters)));
  const body = fields(content(one.requestBody), all);
  if (body) card.append(make("h3", {}, "Body"), body);
  const answers = Object.entries(one.responses || {}).map(([status, each]) => make("li", {}, make("code", {}, status), " " + each.description));
  card.append(make("h3", {}, "Answers"), make("ul", {}, ...answers));
  const schema = fields(content((one.responses || {})["200"]), all);
  if (schema) card.append(schema);
  return card;
};

const start = async () => {
  const document_ = await ask("GET", "/openapi.json");
  const all = (document_.components || {}).schemas || {};
  document.getElementById("about").textContent = document_.info.description + " Version " + document_.info.version + ".";
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, one] of Object.entries(methods)) document.getElementById("paths").append(shown(path, method, one, all));
  }
};

start();
