// The last statements that ended, the newest first.

import { button, bytes, count, element, rowKey, sharing, time } from "./words.js";

const SHOWN = 100;

export class Finished {
  /** `onAgain(statement)` puts a statement into the query box. */
  constructor(node, onAgain) {
    this.list = node.querySelector("ol");
    this.empty = node.querySelector(".empty");
    this.onAgain = onAgain;
    this.list.addEventListener("focusin", (event) => this.reach(event.target.closest("li")));
  }

  /** A hundred rows are one stop of the Tab key, and the arrow keys move among them. */
  reach(row) {
    const stops = (of) => [of, ...of.querySelectorAll("button")];
    if (this.reached) for (const stop of stops(this.reached)) stop.tabIndex = -1;
    for (const stop of stops(row)) stop.tabIndex = 0;
    this.reached = row;
  }

  clear() {
    this.list.replaceChildren();
    this.empty.hidden = false;
  }

  add(statements) {
    if (statements.length === 0) return;
    this.empty.hidden = true;
    this.list.prepend(...statements.map((statement) => this.row(statement)).reverse());
    while (this.list.childElementCount > SHOWN) this.list.lastElementChild.remove();
    if (!this.reached?.isConnected) this.reach(this.list.firstElementChild);
  }

  row({ id, user, sql, took, rows, read, spared, error, ended }) {
    const code = element("code", "", sql ?? "a statement of another user");
    const top = element("div", "top", element("i", error ? "sign failed" : "sign"), code, element("span", "who", `${user} · ${id}`));
    if (sql) {
      const again = button("Again", (event) => { event.stopPropagation(); this.onAgain(sql); });
      again.tabIndex = -1;
      again.title = "Put this statement into the query box";
      top.append(again);
    }
    const shared = read + spared > 0 ? `, ${bytes(read)} read, ${bytes(spared)} spared` : "";
    const outcome = error ?? `${count(rows)} ${rows === 1 ? "row" : "rows"}${shared}`;
    const words = element("div", "words", element("span", error ? "wrong" : "", outcome));
    if (read + spared > 0) words.append(sharing({ read, spared }, read + spared));
    words.append(element("span", "", time(took)));
    const row = element("li", "query", top, words);
    row.title = `ended ${new Date(ended).toLocaleTimeString()}`;
    row.tabIndex = -1;
    const open = () => row.classList.toggle("open");
    row.addEventListener("click", open);
    row.addEventListener("keydown", (event) => rowKey(event, row, open));
    return row;
  }
}
