// Tabs: one of several panels is shown. The arrow keys go from tab to tab.

import { h } from "./dom.js";

let made = 0;

// Return the element with the tabs; `opened` is called with the name of a tab that is opened.
export function tabs(label, names, panel, opened) {
  made += 1;
  panel.id = `panel-${made}`;
  panel.setAttribute("role", "tabpanel");
  const buttons = names.map((name, at) => h("button", { type: "button", role: "tab", id: `tab-${made}-${at}`, "aria-controls": panel.id, onclick: () => choose(name) }, name));
  const element = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: (event) => {
    const at = buttons.indexOf(document.activeElement);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: names.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    const target = (next + names.length) % names.length;
    buttons[target].focus();
    choose(names[target]);
  } }, buttons);
  let current = null;
  function choose(name, told = true) {
    buttons.forEach((button, at) => {
      const is = names[at] === name;
      button.setAttribute("aria-selected", String(is));
      button.tabIndex = is ? 0 : -1;
      if (is) panel.setAttribute("aria-labelledby", button.id);
    });
    if (name !== current && told) opened(name);
    current = name;
  }
  choose(names[0], false);
  return element;
}
