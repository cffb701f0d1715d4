// A person's label of an answer: right or wrong, and the right answer. It is kept as a row of system.labels.

import { post } from "./api.js";
import { alert, h, replace, setText } from "./dom.js";

const MARKS = { right: "✓", wrong: "✗" };
const known = new Map(); // the verdicts of this page's visitor, by statement, row and column

function place(sql, row, at) {
  return JSON.stringify([sql, row, at]);
}

// Return the verdict that the visitor gave to a cell, or null.
export function verdictOf(sql, row, at) {
  return known.get(place(sql, row, at)) ?? null;
}

// Show a verdict, or none, on the button of a cell.
export function mark(button, verdict) {
  button.querySelector(".mark")?.remove();
  if (verdict) button.prepend(h("span", { class: `mark ${verdict}` }, MARKS[verdict])); // at the end, a long text would hide it
  const label = button.getAttribute("aria-label").replace(/; labelled \w+$/, "");
  button.setAttribute("aria-label", verdict ? `${label}; labelled ${verdict}` : label);
}

export function remember(sql, row, at, verdict, button) {
  if (verdict) known.set(place(sql, row, at), verdict);
  else known.delete(place(sql, row, at));
  if (button) mark(button, verdict);
}

// Return the field for the right answer of a call: a choice, a number in a range, or any text.
function field(call, id) {
  const options = call.parameters.options ?? [];
  if (call.function === "ai_score" && options.length) {
    return h("input", { id, type: "number", step: "any", min: options[0], max: options.at(-1) });
  }
  if (options.length) {
    return h("select", { id }, options.filter((option) => option !== call.answer).map((option) => h("option", { value: option }, option)));
  }
  return h("textarea", { id, rows: "3" });
}

function said({ user, own, verdict, label, comment, labelled_at: at }, answer) {
  const right = label !== null && label !== answer ? `; the right answer is ${label}` : "";
  return h("li", {}, `${own ? "You" : user}: ${verdict ?? "the truth"}${right}${comment ? ` – ${comment}` : ""} `, h("span", { class: "hint" }, at.slice(0, 10)));
}

let made = 0;

// Return the labels of a call, for a visitor who cannot label; `reason` says why.
export function labelList(call, reason) {
  return h("div", { class: "label" }, h("h3", {}, "Is this answer right?"), h("p", { class: "hint" }, `You cannot say it here: ${reason}.`),
    h("ul", { class: "labels" }, call.labels.map((one) => said(one, call.answer))));
}

// Return the form for a call's label. `changed` is called with the visitor's verdict, or with null after an undo.
export function labelForm(call, changed) {
  made += 1;
  const [answerId, commentId] = [`right-${made}`, `comment-${made}`];
  let labels = call.labels;
  let before; // what an undo restores: the earlier label or null; undefined offers no undo
  const list = h("ul", { class: "labels" });
  const status = h("p", { class: "hint", role: "status" });
  const right = h("button", { type: "button", disabled: call.answer === null, onclick: () => save({ verdict: "right" }) }, "Right");
  const wrong = h("button", { type: "button", "aria-expanded": "false", onclick: () => open(truth.hidden) }, "Wrong");
  const undo = h("button", { type: "button", hidden: true, onclick: () => takeBack() }, "Undo");
  const answer = field(call, answerId);
  const comment = h("input", { id: commentId, maxlength: "4096" });
  const truth = h("form", { class: "truth", hidden: true, onsubmit: (event) => {
    event.preventDefault();
    save({ verdict: call.answer === null ? null : "wrong", label: answer.value.trim() === "" ? null : answer.value });
  } }, h("label", { for: answerId }, "The right answer"), answer, h("label", { for: commentId }, "Comment"), comment,
  h("p", { class: "actions" }, h("button", { class: "main" }, "Save the label")));
  const problem = h("div", {});

  function open(is) {
    truth.hidden = !is;
    wrong.setAttribute("aria-expanded", String(is));
    if (is) answer.focus();
  }

  function show() {
    const own = labels.find((one) => one.own) ?? null;
    right.setAttribute("aria-pressed", String(own?.verdict === "right"));
    wrong.classList.toggle("chosen", own?.verdict === "wrong");
    undo.hidden = before === undefined;
    replace(list, labels.map((one) => said(one, call.answer)));
    return own;
  }

  // Return whether the server did what it was asked for.
  async function ask(path, values, done, told) {
    replace(problem);
    try {
      const found = await post(path, values);
      const focused = element.contains(document.activeElement) ? document.activeElement : null;
      done(found);
      open(false);
      changed(show()?.verdict ?? null);
      setText(status, told);
      if (focused && !focused.checkVisibility()) wrong.focus();
      return true;
    } catch (error) {
      replace(problem, alert(error));
      return false;
    }
  }

  function save(given, told = "The label is kept.") {
    const about = { ...call.subject, answer: call.answer, model: call.model, options: call.parameters.options ?? [] };
    return ask("/api/label", { ...about, comment: comment.value.trim() || null, ...given }, ({ label, previous }) => {
      before = previous;
      labels = [...labels.filter((one) => !one.own), label];
    }, told);
  }

  async function takeBack() {
    const own = labels.find((one) => one.own);
    const done = before
      // without options: the earlier label can be none of them, because SQL gives any label
      ? await save({ verdict: before.verdict, label: before.label, comment: before.comment, options: [] }, "The earlier label is back.")
      : await ask("/api/label/remove", { label_id: own.label_id }, () => {
        labels = labels.filter((one) => !one.own);
      }, "The label is removed.");
    if (!done) return;
    before = undefined;
    undo.hidden = true;
    wrong.focus();
  }

  const element = h("div", { class: "label" }, h("h3", {}, "Is this answer right?"),
    h("p", { class: "actions", role: "group", "aria-label": "Label of this answer" }, right, wrong, undo, status), truth, problem, list);
  show();
  return { element, press: (key) => ({ r: right, w: wrong, u: undo })[key]?.click() };
}
