// The chunk map of each table: one row per column, with the chunks in order, and above them the number of scans that
// want each. Cells are painted as one small picture that is enlarged, so that many cells cost no more than few.

import { colours, element, fit, write } from "./words.js";

const STATES = ["absent", "coming", "encoded", "decoded"];
const SAID = ["not in memory", "on its way", "in memory, encoded", "in memory, decoded"];
const STRIP = 22;
const FADE_MS = 450;
/** Width of column names on wide and on narrow screens. */
const NAMES = { wide: { width: 96, letters: 15 }, narrow: { width: 76, letters: 11 } };
const ROW_MAX = 12;
const ROWS_HIGH = 208;
/** More tables than these are folded while they are not in use. */
const UNFOLDED = 3;
const IN_USE_MS = 20000;
const ARRANGED_MS = 2000;

/** "#rrggbb" as numbers. */
function rgb(colour) {
  const n = Number.parseInt(colour.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

class TableMap {
  constructor(onPoint) {
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.title = element("b");
    this.note = element("span");
    this.node = element("details", "table", element("summary", "", this.title, " ", this.note), this.canvas);
    this.node.open = true;
    this.node.addEventListener("toggle", () => { this.dirty = true; });
    this.node.querySelector("summary").addEventListener("click", () => { this.chosen = true; });
    this.used = 0;
    this.picture = document.createElement("canvas");
    this.needed = [];
    this.cursor = null;
    this.onPoint = onPoint;
    this.canvas.addEventListener("pointermove", (event) => this.point(this.under(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.point(null));
  }

  /** Takes the table's state from the server. A changed cell fades from its old state, so that no
   *  intermediate shade looks like another state. */
  set(table) {
    const before = this.parts;
    const same = before && this.table.cells === table.cells && this.table.columns.length === table.columns.length;
    const size = table.cells * table.columns.length;
    const parts = new Uint32Array(size);
    for (let at = 0, i = 0; i < table.parts.length; i += 2) {
      parts.fill(table.parts[i + 1], at, at + table.parts[i]);
      at += table.parts[i];
    }
    if (!same) {
      this.changed = new Float64Array(size);
      this.was = new Uint8Array(size);
    }
    const now = performance.now();
    const counts = [0, 0, 0, 0];
    const wanted = new Uint32Array(table.cells);
    const held = new Uint8Array(table.cells);
    for (let at = 0; at < size; at += 1) {
      const state = parts[at] & 3;
      if (same && (before[at] & 3) !== state) {
        this.changed[at] = now;
        this.was[at] = before[at] & 3;
      }
      const cell = at % table.cells;
      wanted[cell] = Math.max(wanted[cell], parts[at] >> 3);
      held[cell] |= (parts[at] >> 2) & 1;
      counts[state] += 1;
    }
    if (counts[1] > 0 || wanted.some((n) => n > 0)) this.used = now;
    Object.assign(this, { table, parts, wanted, held, counts, fades: now + FADE_MS, dirty: true });
    const inMemory = Math.round((100 * (counts[2] + counts[3])) / Math.max(1, size));
    const files = table.files === 1 ? "1 file" : `${table.files} files`;
    write(this.title, table.name);
    const each = table.cells < table.chunks ? `, ${Math.ceil(table.chunks / table.cells)} to a cell` : "";
    write(this.note, `${table.chunks} ${table.chunks === 1 ? "chunk" : "chunks"} in ${files}${each}, ${inMemory}% in memory`);
    this.canvas.setAttribute("aria-label", `Chunks of ${table.name}: ${inMemory}% in memory, ${counts[1]} cells on their way`);
  }

  /** Positions that a chosen query still needs. */
  mark(needed, colour) {
    this.needed = needed;
    this.colour = colour;
    this.dirty = true;
  }

  layout() {
    const rows = this.table.columns.length;
    const row = Math.max(3, Math.min(ROW_MAX, Math.floor(ROWS_HIGH / rows)));
    const names = this.canvas.clientWidth > 480 ? NAMES.wide : NAMES.narrow;
    const left = row >= 9 ? names.width : 0;
    return { rows, row, left, names, height: STRIP + rows * row + 3, width: this.canvas.clientWidth - left };
  }

  draw(theme, now, still) {
    if (!this.table || (!this.dirty && (still || now > this.fades))) return;
    const { rows, row, left, names, height, width } = this.layout();
    if (width <= 0 || rows === 0) return;
    const { context } = fit(this.canvas, height);
    const cells = this.table.cells;
    const x = (cell) => left + (cell * width) / cells;
    context.clearRect(0, 0, left + width, height);
    this.paint(theme, now, still);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture, left, STRIP, width, rows * row);
    this.lines(context, theme, { x, rows, row, left, width });
    this.strip(context, theme, x, left);
    this.signs(context, theme, { x, row, width });
    if (left > 0) this.names(context, theme, row, names);
    if (this.cursor) {
      const { column, cell } = this.cursor;
      context.strokeStyle = theme.text;
      context.lineWidth = 1.5;
      context.strokeRect(x(cell) - 0.5, STRIP + column * row - 0.5, width / cells + 1, row + 1);
    }
    this.dirty = false;
  }

  /** One pixel per cell. */
  paint(theme, now, still) {
    const { cells } = this.table;
    const rows = this.table.columns.length;
    if (this.picture.width !== cells || this.picture.height !== rows) {
      this.picture.width = cells;
      this.picture.height = rows;
      this.image = new ImageData(cells, rows);
      this.image.data.fill(255);
    }
    const { data } = this.image;
    const shades = STATES.map((state) => rgb(theme[state]));
    for (let at = 0; at < this.parts.length; at += 1) {
      const shade = shades[this.parts[at] & 3];
      const age = still ? FADE_MS : now - this.changed[at];
      const rest = age < FADE_MS ? 1 - age / FADE_MS : 0;
      const was = shades[this.was[at]];
      for (let part = 0; part < 3; part += 1) data[4 * at + part] = shade[part] + rest * (was[part] - shade[part]);
    }
    this.picture.getContext("2d").putImageData(this.image, 0, 0);
  }

  /** Gaps between cells, if there is room. */
  lines(context, theme, { x, rows, row, left, width }) {
    context.fillStyle = theme.panel;
    if (row >= 4) for (let at = 1; at <= rows; at += 1) context.fillRect(left, STRIP + at * row - 1, width, 1);
    if (width / this.table.cells >= 4) {
      for (let cell = 1; cell <= this.table.cells; cell += 1) context.fillRect(x(cell) - 1, STRIP, 1, rows * row);
    }
  }

  /** The number of scans that want each chunk, and the chunks in use. */
  strip(context, theme, x, left) {
    const most = Math.max(4, ...this.wanted);
    context.fillStyle = theme.wanted;
    for (let cell = 0; cell < this.table.cells; cell += 1) {
      const high = (this.wanted[cell] / most) * (STRIP - 6);
      if (high > 0) context.fillRect(x(cell), STRIP - 4 - high, Math.max(1, x(cell + 1) - x(cell) - 1), high);
    }
    context.fillStyle = theme.held;
    for (let cell = 0; cell < this.table.cells; cell += 1) {
      if (this.held[cell]) context.fillRect(x(cell), STRIP - 3, Math.max(1, x(cell + 1) - x(cell) - 1), 2);
    }
    if (left > 0 && this.wanted.some((n) => n > 0)) {
      context.fillStyle = theme.dim;
      context.font = "10px system-ui, sans-serif";
      context.textAlign = "right";
      context.textBaseline = "top";
      context.fillText(`${most} scans`, left - 5, 2);
      context.textAlign = "left";
    }
    context.fillStyle = theme[this.colour] ?? theme.accent;
    const { chunks, cells } = this.table;
    for (const [from, to] of this.needed) {
      context.fillRect(x((from * cells) / chunks), 0, Math.max(1.5, x((to * cells) / chunks) - x((from * cells) / chunks)), 3);
    }
  }

  /** Cells that are being loaded are half filled, so that colour is not the only sign. */
  signs(context, theme, { x, row, width }) {
    const { cells } = this.table;
    if (width / cells < 5 || row < 5) return;
    context.fillStyle = theme.absent;
    for (let at = 0; at < this.parts.length; at += 1) {
      if ((this.parts[at] & 3) !== 1) continue;
      const [from, top] = [x(at % cells), STRIP + Math.floor(at / cells) * row];
      const [wide, high] = [width / cells - 1, row - 1];
      context.beginPath();
      context.moveTo(from + wide, top);
      context.lineTo(from + wide, top + high);
      context.lineTo(from, top + high);
      context.fill();
    }
  }

  names(context, theme, row, { width, letters }) {
    context.fillStyle = theme.dim;
    context.font = `${Math.min(11, row)}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    this.table.columns.forEach((name, at) => {
      const short = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
      context.fillText(short, 0, STRIP + (at + 0.5) * row, width - 6);
    });
  }

  under(event) {
    if (!this.table) return null;
    const { rows, row, left, width } = this.layout();
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientY - box.top - STRIP) / row);
    const cell = Math.floor(((event.clientX - box.left - left) * this.table.cells) / width);
    const inside = column >= 0 && column < rows && cell >= 0 && cell < this.table.cells;
    return inside ? { column, cell } : null;
  }

  key(event) {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = moves[event.key];
    if (!move || !this.table) return;
    event.preventDefault();
    const { column, cell } = this.cursor ?? { column: 0, cell: -1 };
    const within = (n, end) => Math.max(0, Math.min(end - 1, n));
    this.point({ column: within(column + move[0], this.table.columns.length), cell: within(cell + move[1], this.table.cells) });
  }

  point(cursor) {
    if (cursor === null && this.cursor === null) return;
    this.cursor = cursor;
    this.dirty = true;
    this.onPoint(cursor ? this.described(cursor) : null);
  }

  described({ column, cell }) {
    const { name, columns, cells, chunks } = this.table;
    const part = this.parts[column * cells + cell];
    const [first, end] = [Math.ceil((cell * chunks) / cells), Math.ceil(((cell + 1) * chunks) / cells)];
    const which = end - first > 1 ? `chunks ${first} to ${end - 1}` : `chunk ${first}`;
    const wanted = part >> 3;
    return `${name}.${columns[column]}, ${which}: ${SAID[part & 3]}${(part >> 2) & 1 ? ", in use" : ""}, wanted by ${wanted === 0 ? "no scan" : wanted === 1 ? "1 scan" : `${wanted} scans`}`;
  }
}

export class Maps {
  constructor(node, cellNode) {
    this.node = node;
    this.empty = node.previousElementSibling;
    this.maps = new Map();
    this.arranged = -Infinity;
    this.hint = cellNode.textContent;
    this.onPoint = (text) => write(cellNode, text ?? this.hint);
    this.recolour();
    new ResizeObserver(() => this.recolour()).observe(node);
  }

  recolour() {
    this.theme = colours();
    for (const map of this.maps.values()) map.dirty = true;
  }

  /** `all`: all tables; `tables`: the changed ones. */
  set(all, tables) {
    for (const [id, map] of this.maps) {
      if (!all.includes(id)) { map.node.remove(); this.maps.delete(id); }
    }
    for (const table of tables) {
      let map = this.maps.get(table.id);
      if (!map) {
        map = new TableMap(this.onPoint);
        this.maps.set(table.id, map);
        this.node.append(map.node);
      }
      map.set(table);
    }
    this.empty.hidden = this.maps.size > 0;
    this.arrange(performance.now());
  }

  /** Of many tables, those in use come first, and the others are folded. */
  arrange(now) {
    if (now - this.arranged < ARRANGED_MS) return;
    this.arranged = now;
    const all = [...this.maps.values()];
    const inUse = (map) => map.used > 0 && now - map.used < IN_USE_MS;
    const name = (map) => map.table.name;
    all.sort((a, b) => inUse(b) - inUse(a) || name(a).localeCompare(name(b)));
    const many = all.length > UNFOLDED;
    for (const map of all) if (!map.chosen) map.node.open = !many || inUse(map);
    const nodes = all.map((map) => map.node);
    const isInOrder = nodes.every((node, at) => this.node.children[at] === node);
    // A node that is moved loses the focus.
    if (!isInOrder && !this.node.contains(document.activeElement)) this.node.replaceChildren(...nodes);
  }

  mark(needed, query) {
    for (const [id, map] of this.maps) map.mark(needed.filter((n) => n.table === id).flatMap((n) => n.runs), query?.colour);
  }

  draw(now, still) {
    for (const map of this.maps.values()) map.draw(this.theme, now, still);
  }
}
