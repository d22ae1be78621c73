// The workers of a cluster. Without a cluster, or for users who are no administrators, there is no such panel.

import { ask } from "./stream.js";
import { bytes, element } from "./words.js";

const EVERY_MS = 2000;

export class Workers {
  constructor(node) {
    this.node = node;
    this.rows = node.querySelector("tbody");
    this.timer = null;
  }

  // Another server may have another cluster, so each connection begins anew.
  watch() {
    clearInterval(this.timer);
    this.timer = setInterval(() => this.load(), EVERY_MS);
    this.load();
  }

  async load() {
    const workers = await ask("/api/workers").catch(() => []);
    this.node.hidden = workers === null;
    if (workers === null) { clearInterval(this.timer); return; }
    const cell = (text) => element("td", "", `${text}`);
    this.rows.replaceChildren(...workers.map((worker) => {
      const { address, state, reason, tasks, bytes_read, parts_read, parts_shared, query_memory_bytes } = worker;
      const row = element("tr", state === "ready" ? "" : "away");
      const known = tasks !== undefined && tasks !== null;
      const size = (count) => (known ? bytes(count) : "");
      const counts = [known ? tasks : "", size(bytes_read), known ? parts_read : "", known ? parts_shared : "", size(query_memory_bytes)];
      row.append(cell(address), cell(state), ...counts.map(cell));
      row.title = reason ?? "";
      return row;
    }));
  }
}
