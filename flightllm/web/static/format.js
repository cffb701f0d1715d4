// Numbers, sizes and times as text for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

// Return a number with its noun, such as "1 row" and "2 rows".
export function counted(value, noun) {
  return `${count(value)} ${value === 1 ? noun : `${noun}s`}`;
}

export function share(part, all) {
  return all ? `${(100 * part / all).toFixed(1)} %` : "–";
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(value / 60);
  const rest = `${String(Math.floor(value % 60)).padStart(2, "0")} s`;
  return minutes < 60 ? `${minutes} min ${rest}` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value ?? 0;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 100 ? size.toFixed(1) : whole.format(size)} ${units[unit]}`;
}

export function when(text) {
  if (!text) return "–";
  const date = new Date(text);
  const time = date.toLocaleTimeString("en-GB");
  const today = date.toDateString() === new Date().toDateString();
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0"));
  return today ? time : `${day.join("-")} ${time}`;
}

// Return SQL on one line, for lists.
export function oneLine(text) {
  return text.replace(/\s+/g, " ").trim();
}

export function isOpen(query) {
  return query.status === "planned" || query.status === "running";
}
