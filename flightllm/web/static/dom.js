// Make DOM elements. Texts always become text nodes, never markup.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...shown(children));
  return element;
}

// Return the children that are there: null, undefined and false stand for no child.
function shown(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false);
}

export function replace(element, ...children) {
  element.replaceChildren(...shown(children));
  return element;
}

// Set a text only if it differs, so that a selection in it stays.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Make a table in a box that scrolls sideways; columns are texts or [text, class].
export function table(caption, columns, body) {
  const heads = columns.map((column) => {
    const [text, style] = Array.isArray(column) ? column : [column, null];
    return h("th", { scope: "col", class: style }, text);
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, heads)), body));
}

// Show items as children of a parent, in order; update the elements of known items instead of making new ones.
export function keyed(parent, items, key, make) {
  const known = parent.known ?? new Map();
  const ids = new Set(items.map(key));
  for (const [id, shown] of known) if (!ids.has(id)) shown.element.remove();
  parent.known = new Map();
  items.forEach((item, at) => {
    const shown = known.get(key(item)) ?? make(item);
    shown.update(item);
    parent.known.set(key(item), shown);
    if (parent.children[at] !== shown.element) parent.insertBefore(shown.element, parent.children[at] ?? null);
  });
}

// Make a list of names and values; a value is a text or an element's children.
export function figures(pairs, style = "figures") {
  return h("dl", { class: style }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function alert(error) {
  return h("p", { class: "error", role: "alert" }, error.message ?? String(error));
}
