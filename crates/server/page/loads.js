// Loads over time. Each dot is a chunk that was read, the newest on the right, with its place in the table as
// height. Lines through many queries mean that these share. Scattered dots mean that every query reads alone.
// (Figure 4 of the 2007 paper.)

import { bytes, colours, fit, time, write } from "./words.js";

const SHOWN_MS = 60000;
const KEPT = 20000;
/** The greatest distance of the pointer from its dot, in pixels. */
const NEAR = 8;
const [LEFT, BOTTOM, TOP] = [40, 18, 14];

export class Loads {
  constructor(node) {
    this.canvas = node.querySelector("canvas");
    this.select = node.querySelector("select");
    this.said = node.querySelector(".hint");
    this.hint = this.said.textContent;
    this.chosen = null;
    this.cursor = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(this.under(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("blur", () => this.point(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.points = [];
    this.switches = [];
    this.tables = new Map();
    this.clock = null;
    this.recolour();
    new ResizeObserver(() => this.recolour()).observe(this.canvas);
  }

  recolour() { this.theme = colours(); }

  /** Drops all data, which is another server's. */
  clear() {
    this.points = [];
    this.switches = [];
    this.clock = null;
    this.policy = undefined;
    this.cursor = null;
  }

  /** Colours the dots of a query: the chunks that it needed when it was chosen. */
  mark(needed, query) {
    if (query === null) this.chosen = null;
    else if (this.chosen?.id !== query.id) this.chosen = { ...query, needed };
  }

  /** Returns true if a load is of the chosen query. */
  isChosen([t, table, position]) {
    if (this.chosen === null || t < this.chosen.since) return false;
    const runs = this.chosen.needed.find((of) => of.table === table)?.runs ?? [];
    return runs.some(([from, to]) => position >= from && position < to);
  }

  set(message) {
    if (this.clock && message.t < this.clock.server) this.clear();
    this.clock = { server: message.t, here: performance.now() };
    const change = { t: message.t, policy: message.policy, buffer: message.buffer };
    if (this.policy !== undefined && (this.policy !== message.policy || this.buffer !== message.buffer)) {
      this.switches.push({ ...change, said: this.policy !== message.policy ? message.policy : bytes(message.buffer) });
    }
    Object.assign(this, { policy: message.policy, buffer: message.buffer });
    for (const table of message.tables) this.tables.set(table.id, table);
    for (const id of this.tables.keys()) if (!message.all.includes(id)) this.tables.delete(id);
    this.points.push(...message.points);
    if (this.points.length > KEPT) this.points.splice(0, this.points.length - KEPT);
    this.offer();
  }

  /** The tables to choose from. By default the most recently read one is shown. */
  offer() {
    const ids = [...this.tables.keys()].join();
    if (ids !== this.offered) {
      this.offered = ids;
      const chosen = this.select.value;
      const options = [...this.tables.values()].map((table) => new Option(table.name, table.id));
      this.select.replaceChildren(new Option("the busiest", ""), ...options);
      this.select.value = this.tables.has(Number(chosen)) ? chosen : "";
    }
  }

  table() {
    if (this.select.value) return this.tables.get(Number(this.select.value));
    const counts = new Map();
    const since = this.clock.server - SHOWN_MS;
    for (let at = this.points.length - 1; at >= 0 && this.points[at][0] > since; at -= 1) {
      counts.set(this.points[at][1], (counts.get(this.points[at][1]) ?? 0) + 1);
    }
    const [busiest] = [...counts].sort((a, b) => b[1] - a[1]);
    return this.tables.get(busiest?.[0]) ?? this.tables.values().next().value;
  }

  draw(now) {
    if (!this.clock) return;
    const table = this.table();
    const { context, width, height } = fit(this.canvas);
    const { theme } = this;
    const end = this.clock.server + Math.min(2000, now - this.clock.here);
    const x = (t) => LEFT + ((t - end + SHOWN_MS) * (width - LEFT - 6)) / SHOWN_MS;
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    this.axes(context, { width, height, end, x, table });
    if (!table) return;
    const chunks = Math.max(1, table.chunks);
    const y = (position) => height - BOTTOM - ((position + 1) * (height - BOTTOM - TOP)) / chunks;
    const high = Math.max(2, Math.min(6, (height - BOTTOM - TOP) / chunks));
    const own = this.chosen ? theme[this.chosen.colour] : theme.accent;
    const rest = this.chosen ? theme.dim : theme.accent;
    for (let at = this.points.length - 1; at >= 0; at -= 1) {
      const [t, of, position] = this.points[at];
      if (t < end - SHOWN_MS) break;
      if (of !== table.id) continue;
      context.fillStyle = this.isChosen(this.points[at]) ? own : rest;
      context.fillRect(x(t) - 1, y(position), 2.5, high);
    }
    this.marks(context, { height, end, x });
    this.places = { x, y, high, table };
    if (this.cursor?.[1] !== table.id || this.cursor[0] < end - SHOWN_MS) return;
    context.strokeStyle = theme.text;
    context.lineWidth = 1.5;
    context.strokeRect(x(this.cursor[0]) - 3, y(this.cursor[2]) - 2, 6.5, high + 4);
  }

  /** The dots that are shown, oldest first. */
  shown() {
    const since = this.clock.server - SHOWN_MS;
    return this.points.filter(([t, of]) => t > since && of === this.places?.table.id);
  }

  /** The nearest dot to the pointer. */
  under(event) {
    if (!this.clock || !this.places) return null;
    const box = this.canvas.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const { x, y, high } = this.places;
    const far = ([t, , position]) => Math.hypot(x(t) - left, y(position) + high / 2 - top);
    const nearest = this.shown().reduce((best, dot) => (best === null || far(dot) < far(best) ? dot : best), null);
    return nearest !== null && far(nearest) <= NEAR ? nearest : null;
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.clock) return;
    event.preventDefault();
    const dots = this.shown();
    const now = this.cursor ? dots.indexOf(this.cursor) : dots.length;
    this.point(dots[Math.max(0, Math.min(dots.length - 1, now + step))] ?? null);
  }

  point(dot) {
    this.cursor = dot;
    if (dot === null) { write(this.said, this.hint); return; }
    const [t, of, position, columns] = dot;
    const name = this.tables.get(of)?.name ?? "";
    write(this.said, `${name}, chunk ${position}: ${columns} ${columns === 1 ? "column" : "columns"}, ${time(this.clock.server - t)} ago`);
  }

  axes(context, { width, height, end, x, table }) {
    const { theme } = this;
    context.fillStyle = theme.line;
    context.fillRect(LEFT, height - BOTTOM, width - LEFT - 6, 1);
    context.fillRect(LEFT, TOP, 1, height - BOTTOM - TOP);
    context.fillStyle = theme.dim;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    for (let s = 0; s <= 50; s += 10) {
      context.fillText(s === 0 ? "now" : `−${s} s`, Math.min(width - 14, x(end - 1000 * s)), height - 4);
    }
    context.textAlign = "right";
    context.fillText(table ? String(table.chunks) : "", LEFT - 5, TOP + 8);
    context.fillText("0", LEFT - 5, height - BOTTOM);
    context.save();
    context.translate(12, (height - BOTTOM + TOP) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText("chunk", 0, 0);
    context.restore();
  }

  /** Marks changes of policy and buffer. */
  marks(context, { height, end, x }) {
    const { theme } = this;
    this.switches = this.switches.filter((change) => change.t > end - SHOWN_MS - 5000);
    context.textAlign = "left";
    for (const { t, said } of this.switches) {
      if (x(t) < LEFT) continue;
      context.fillStyle = theme.coming;
      context.fillRect(x(t), TOP - 4, 1.5, height - BOTTOM - TOP + 4);
      context.fillText(said, x(t) + 5, TOP + 4);
    }
  }
}
