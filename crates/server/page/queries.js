// The running queries: progress, bytes read, bytes saved, waiting, and time left of their scans. Rows are updated in
// place, so that two hundred of them cost little.

import { ask, send } from "./stream.js";
import { button, bytes, count, element, operator, range, rowKey, time, write } from "./words.js";

const NEEDED_EVERY_MS = 250;
/** Colours of queries. Beyond them, colours repeat. */
const COLOURS = 6;

class Row {
  constructor(list, query) {
    const { id, user, sql } = query;
    this.colour = list.freeColour();
    this.begun = list.t - query.elapsed;
    this.own = element("i", "own");
    this.spared = element("i", "spared");
    this.track = element("div", "track", this.spared, this.own);
    this.track.setAttribute("role", "progressbar");
    this.left = element("span");
    this.right = element("span");
    this.stop = button("Stop", (event) => { event.stopPropagation(); list.stop(id); });
    this.stop.title = `Stop query ${id}`;
    const code = element("code", "", sql ?? "a statement of another user");
    const top = element("div", "top", element("i", `sign q${this.colour}`), code, element("span", "who", `${user} · ${id}`));
    if (list.admin || user === list.user) top.append(this.stop);
    this.node = element("li", "query", top, this.track, element("div", "words", this.left, this.right));
    this.node.tabIndex = 0;
    this.node.addEventListener("click", () => list.choose(id));
    this.node.addEventListener("keydown", (event) => rowKey(event, this.node, () => list.choose(id)));
  }

  set(query) {
    const { wanted, done, read, spared, waiting, running, elapsed, left, from, works } = query;
    const share = wanted > 0 ? done / wanted : 0;
    const mine = read + spared > 0 ? read / (read + spared) : 0;
    this.spared.style.transform = `scaleX(${share})`;
    this.own.style.transform = `scaleX(${share * mine})`;
    const percent = Math.round(100 * share);
    this.track.setAttribute("aria-valuenow", percent);
    const progress = wanted > 0 ? `${done} of ${wanted} chunks` : "planning, or nothing to scan";
    const words = !running ? "waits for its turn"
      : from ? `takes its result from query ${from}, which is equal`
      : works ? `${wanted > 0 ? "scans done, " : ""}${operator(works[0])} works${works[1] > 0 ? `: ${count(works[1])} rows` : ""}`
      : `${progress} · ${bytes(read)} read, ${bytes(spared)} spared`;
    write(this.left, words);
    const waits = running && waiting > 300;
    this.right.classList.toggle("waits", waits);
    write(this.right, waits ? `waits ${time(waiting)}` : left && left[1] > 0 ? range(left) : time(elapsed));
  }
}

export class Queries {
  constructor(node, onNeeded, onError) {
    this.list = node.querySelector("ol");
    this.empty = node.querySelector(".empty");
    this.count = node.querySelector("#count");
    this.rows = new Map();
    this.chosen = null;
    Object.assign(this, { onNeeded, onError, admin: false, user: "" });
    setInterval(() => this.needed(), NEEDED_EVERY_MS);
  }

  /** The colour that the fewest rows have. */
  freeColour() {
    const uses = new Array(COLOURS).fill(0);
    for (const row of this.rows.values()) uses[row.colour] += 1;
    return uses.indexOf(Math.min(...uses));
  }

  set({ queries, t }) {
    this.t = t;
    const there = new Set();
    for (const query of queries) {
      there.add(query.id);
      let row = this.rows.get(query.id);
      if (!row) {
        row = new Row(this, query);
        this.rows.set(query.id, row);
        this.list.append(row.node);
      }
      row.set(query);
    }
    for (const [id, row] of this.rows) {
      if (there.has(id)) continue;
      row.node.remove();
      this.rows.delete(id);
      if (this.chosen === id) this.choose(null);
    }
    write(this.count, queries.length > 0 ? String(queries.length) : "");
    this.empty.hidden = queries.length > 0;
  }

  clear() {
    for (const row of this.rows.values()) row.node.remove();
    this.rows.clear();
    this.choose(null);
  }

  choose(id) {
    const chosen = id === this.chosen ? null : id;
    this.rows.get(this.chosen)?.node.removeAttribute("aria-current");
    this.chosen = chosen;
    this.rows.get(chosen)?.node.setAttribute("aria-current", "true");
    if (chosen === null) this.onNeeded([], null); else this.needed();
  }

  /** Asks which chunks the chosen query still needs. */
  async needed() {
    if (this.chosen === null || this.asking || document.hidden) return;
    this.asking = true;
    const of = this.chosen;
    try {
      const needed = await ask(`/api/needed/${of}`);
      const row = this.rows.get(of);
      if (this.chosen === of && row) this.onNeeded(needed, { id: of, colour: `q${row.colour}`, since: row.begun });
    } catch { /* The connection reports the error. */ }
    this.asking = false;
  }

  async stop(id) {
    try { await send(`/api/queries/${id}/stop`); } catch (error) { this.onError(error); }
  }
}
