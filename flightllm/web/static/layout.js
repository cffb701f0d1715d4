// Where the parts of a plan stand in its drawing. The part that runs last is at the top.

// Return how deep each part is below the first one: one level more than the deepest part that reads it.
function depths(parts) {
  const known = new Map(parts.map((part) => [part.name, 0]));
  // Parts come before those that they read; a shared part can come too early, so a second turn settles it.
  for (let turn = 0; turn < parts.length; turn += 1) {
    let changed = false;
    for (const part of parts) {
      for (const name of part.inputs) {
        if (!known.has(name) || known.get(name) > known.get(part.name)) continue;
        known.set(name, known.get(part.name) + 1);
        changed = true;
      }
    }
    if (!changed) break;
  }
  return known;
}

// Return {places: Map of name → {column, level}, columns, levels}. A part stands above the middle of its inputs.
export function layout(parts) {
  const levels = depths(parts);
  const byName = new Map(parts.map((part) => [part.name, part]));
  const places = new Map();
  let columns = 0;
  const place = (part) => {
    places.set(part.name, { column: 0, level: levels.get(part.name) });
    const own = []; // the inputs that no other part has placed
    for (const name of part.inputs) {
      if (!byName.has(name) || places.has(name)) continue;
      place(byName.get(name));
      own.push(name);
    }
    const found = own.map((name) => places.get(name).column);
    places.get(part.name).column = own.length ? (found[0] + found.at(-1)) / 2 : (columns += 1) - 1;
  };
  for (const part of parts) if (!places.has(part.name)) place(part);
  return { places, columns, levels: parts.length ? Math.max(...levels.values()) + 1 : 0 };
}
