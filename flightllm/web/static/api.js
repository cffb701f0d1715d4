// Requests to the server.

export class Refused extends Error {
  constructor(status, error) {
    super(error.message ?? `The server answered ${status}.`);
    this.status = status;
    this.details = error;
  }
}

let signedOut = () => {};

// Set the function to call when the server reports that the login has ended.
export function onSignedOut(action) {
  signedOut = action;
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { message: "The server cannot be reached." });
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  const refused = new Refused(response.status, answer.error ?? {});
  if (response.status === 401 && path !== "/api/sign-in") signedOut(refused);
  throw refused;
}

export async function get(path) {
  return (await send(path, {})).json();
}

function posting(values, signal) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(values), signal };
}

export async function post(path, values = {}, signal = undefined) {
  return (await send(path, posting(values, signal))).json();
}

// Send a file, which becomes temporary tables of this login.
export async function upload(file) {
  const options = { method: "POST", headers: { "content-type": "application/octet-stream" }, body: file };
  return (await send(`/api/files?${new URLSearchParams({ name: file.name })}`, options)).json();
}

// Run a statement and call `tell` with each event; aborting `signal` stops the statement on the server.
export async function run(values, signal, tell) {
  const response = await send("/api/statements", posting(values, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let begun = []; // the pieces of a line that has not ended: joining them once is faster than after each piece
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = value.split("\n");
    const rest = lines.pop();
    for (const line of lines) {
      tell(JSON.parse(begun.join("") + line));
      begun = [];
    }
    begun.push(rest);
  }
}

// Call `ask` now and every `seconds()` seconds while the page is visible; return a function that stops this.
export function poll(ask, seconds) {
  let stopped = false;
  let timer = 0;
  async function turn() {
    if (!document.hidden) await ask();
    if (!stopped) timer = setTimeout(turn, 1000 * seconds());
  }
  turn();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
