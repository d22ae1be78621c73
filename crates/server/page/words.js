// Formatting of numbers, and construction of elements. Text is always inserted as text, never as markup.

const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];

/** Bytes with three significant digits. */
export function bytes(n) {
  let at = 0;
  while (n >= 999.5 && at < SIZES.length - 1) { n /= 1000; at += 1; }
  return `${at === 0 || n >= 99.95 ? Math.round(n) : n.toFixed(n >= 9.995 ? 1 : 2)} ${SIZES[at]}`;
}

export function count(n) {
  return n < 10000 ? String(Math.round(n)) : Math.round(n).toLocaleString("en");
}

/** Milliseconds in a readable unit. */
export function time(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return `${(s / 3600).toFixed(1)} h`;
}

/** A range of milliseconds. */
export function range([least, most]) {
  const [a, b] = [time(least), time(most)];
  if (a === b) return `about ${a} left`;
  const [first, unit] = a.split(" ");
  return unit === b.split(" ")[1] ? `${first} to ${b} left` : `${a} to ${b} left`;
}

/** An element with a class, a text and children. */
export function element(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

/** A bar of the bytes read and spared, as a share of `most`. */
export function sharing({ read, spared }, most) {
  const [own, rest] = [element("i", "own"), element("i", "spared")];
  own.style.transform = `scaleX(${read / most})`;
  rest.style.transform = `scaleX(${(read + spared) / most})`;
  const track = element("div", "track", rest, own);
  track.setAttribute("role", "img");
  track.setAttribute("aria-label", `${bytes(read)} read, ${bytes(spared)} spared`);
  return track;
}

/** The name of an operator in words: "hash join" for HashJoinExec. */
export function operator(name) {
  return name.replace(/Exec$/, "").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

/** A button with an action. */
export function button(text, act) {
  const made = element("button", "", text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** Keys on a row of a list: Enter and the space bar act, and the arrow keys move to a neighbour. */
export function rowKey(event, row, act) {
  if (event.target !== row) return;
  const step = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling };
  if (event.key === "Enter" || event.key === " ") act();
  else if (event.key in step) step[event.key]?.focus();
  else return;
  event.preventDefault();
}

/** A name as SQL needs it. */
export function quoted(name) {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** Sets a text only if it differs, so that unchanged text costs nothing. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The colours of the current theme, for canvases. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["panel", "line", "text", "dim", "accent", "absent", "coming", "encoded", "decoded", "held", "wanted", "good",
    "q0", "q1", "q2", "q3", "q4", "q5"];
  return Object.fromEntries(names.map((name) => [name, of(name)]));
}

/** Sets a canvas to the screen's resolution. Returns its context, in CSS pixels, and its size. */
export function fit(canvas, height) {
  const width = canvas.clientWidth;
  const tall = height ?? canvas.clientHeight;
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(tall * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    if (height !== undefined) canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return { context, width, height: tall };
}
