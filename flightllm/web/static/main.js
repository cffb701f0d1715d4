// Sign in, then show the page that the address names.

import { get, onSignedOut, post } from "./api.js";
import { alert, h, replace } from "./dom.js";
import * as load from "./load.js";
import * as objects from "./objects.js";
import * as queries from "./queries.js";
import * as query from "./query.js";
import * as sql from "./sql.js";

const PAGES = [
  { path: /^#\/sql$/, title: "SQL", link: "#/sql", page: sql },
  { path: /^#\/queries$/, title: "Queries", link: "#/queries", page: queries },
  { path: /^#\/queries\/([^/]+)$/, title: "Query", of: "#/queries", page: query },
  { path: /^#\/tables$/, title: "Tables", link: "#/tables", page: objects },
  { path: /^#\/load$/, title: "Load", link: "#/load", page: load, admins: true },
];

const top = document.getElementById("top");
const main = document.getElementById("main");
let context = null;
let leave = () => {};

function head() {
  const links = PAGES.filter((one) => one.link && (context.me.admin || !one.admins));
  const out = context.me.open ? null : h("button", { type: "button", onclick: signOut }, "Sign out");
  replace(top, h("span", { class: "name" }, "FlightLLM"),
    h("nav", { "aria-label": "Pages" }, links.map((one) => h("a", { href: one.link }, one.title))),
    h("span", { class: "who" }, `${context.me.user} (${context.me.role})`), out);
}

function route(event) {
  if (!context) return;
  const found = PAGES.find((one) => one.path.test(location.hash) && (context.me.admin || !one.admins));
  if (!found) {
    location.hash = "#/sql";
    return;
  }
  leave();
  document.title = `${found.title} – FlightLLM`;
  for (const link of top.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === (found.link ?? found.of)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave = found.page.show(main, found.path.exec(location.hash).slice(1), context);
  if (event) main.querySelector("h1")?.focus();
}

function askWho(refused = null) {
  context = null;
  leave();
  leave = () => {};
  replace(top, h("span", { class: "name" }, "FlightLLM"));
  document.title = "Sign in – FlightLLM";
  const problem = h("div", {}, refused ? alert(refused) : null);
  const user = h("input", { id: "user", name: "username", autocomplete: "username", autocapitalize: "off" });
  const password = h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password" });
  const button = h("button", { type: "submit", class: "main" }, "Sign in");
  const form = h("form", { class: "sign-in", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    replace(problem);
    try {
      await post("/api/sign-in", { user: user.value, password: password.value });
      await start();
    } catch (error) {
      replace(problem, alert(error));
      password.select();
    }
    button.disabled = false;
  } }, h("h1", {}, "Sign in"), problem,
    h("label", { for: "user" }, "User"), user,
    h("label", { for: "password" }, "Password or API token"), password, h("p", {}, button));
  replace(main, form);
  user.focus();
}

async function signOut() {
  try {
    await post("/api/sign-out");
  } catch (error) {
    if (error.status !== 401) {
      main.prepend(alert(error));
      return;
    }
  }
  location.replace("/"); // a reload removes everything that was shown
}

async function start() {
  context = { me: await get("/api/me") };
  head();
  route(null);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address must keep naming the page
  main.focus();
});
onSignedOut((refused) => {
  if (context) askWho(refused);
});
window.addEventListener("hashchange", route);
try {
  await start();
} catch (error) {
  try {
    if (error.status !== 401) throw error;
    await post("/api/sign-in"); // a server without users accepts its own machine
    await start();
  } catch (again) {
    askWho(again.status === 401 ? null : again);
  }
}
