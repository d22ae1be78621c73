// Loads over time. Each dot is a chunk that was read, the newest on the right, with its place in the table as
// height. Lines through many queries mean that these share. Scattered dots mean that every query reads alone.
// (Figure 4 of the 2007 paper.)

import { bytes, colours, fit } from "./words.js";

const SHOWN_MS = 60000;
const KEPT = 20000;
const [LEFT, BOTTOM, TOP] = [40, 18, 14];

export class Loads {
  constructor(node) {
    this.canvas = node.querySelector("canvas");
    this.select = node.querySelector("select");
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
    context.fillStyle = theme.accent;
    for (let at = this.points.length - 1; at >= 0; at -= 1) {
      const [t, of, position] = this.points[at];
      if (t < end - SHOWN_MS) break;
      if (of === table.id) context.fillRect(x(t) - 1, y(position), 2.5, high);
    }
    this.marks(context, { height, end, x });
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
