// Completion of names of tables and columns, and of words of SQL, while a statement is written.

import { element, quoted } from "./words.js";

const WORDS = "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT DISTINCT COUNT SUM AVG MIN MAX BETWEEN LIKE EXISTS LEFT JOIN INNER USING UNION WITH CASE WHEN THEN ELSE END DESC INTERVAL DATE_TRUNC EXTRACT".split(" ");
const SHOWN = 8;

export class Completion {
  constructor(text, list) {
    Object.assign(this, { text, list, tables: [], at: -1 });
    text.addEventListener("input", () => this.offer());
    text.addEventListener("blur", () => this.close());
    text.addEventListener("keydown", (event) => this.key(event));
    list.addEventListener("pointerdown", (event) => {
      const chosen = [...list.children].indexOf(event.target.closest("li"));
      if (chosen >= 0) { event.preventDefault(); this.take(chosen); }
    });
  }

  /** The word before the cursor. */
  word() {
    if (this.text.selectionStart !== this.text.selectionEnd) return "";
    return this.text.value.slice(0, this.text.selectionStart).match(/[\p{L}_][\p{L}\p{N}_]*$/u)?.[0] ?? "";
  }

  offer() {
    const word = this.word().toLowerCase();
    if (!word) { this.close(); return; }
    const text = this.text.value.toLowerCase();
    const used = this.tables.filter(({ name }) => text.includes(name.toLowerCase()));
    const columns = (used.length > 0 ? used : this.tables).flatMap((table) => table.columns.map(({ name, type }) => [quoted(name), type]));
    const names = [...columns, ...this.tables.map(({ name }) => [quoted(name), "table"])];
    const words = WORDS.map((name) => [name, ""]);
    const fits = ([name]) => name.replace(/^"/, "").toLowerCase().startsWith(word) && name.toLowerCase() !== word;
    this.found = [...new Map([...names, ...words].filter(fits)).entries()].slice(0, SHOWN);
    this.list.replaceChildren(...this.found.map(([name, kind]) => {
      const item = element("li", "", name, element("small", "", kind));
      item.setAttribute("role", "option");
      return item;
    }));
    this.choose(-1);
    this.list.hidden = this.found.length === 0;
  }

  choose(at) {
    this.at = at;
    [...this.list.children].forEach((item, of) => item.setAttribute("aria-selected", String(of === at)));
  }

  key(event) {
    if (this.list.hidden) return;
    const last = this.found.length - 1;
    if (event.key === "Escape") this.close();
    else if (event.altKey || event.ctrlKey || event.metaKey) return;
    else if (event.key === "ArrowDown") this.choose(this.at === last ? 0 : this.at + 1);
    else if (event.key === "ArrowUp") this.choose(this.at <= 0 ? last : this.at - 1);
    else if (event.key === "Tab" && !event.shiftKey) this.take(Math.max(0, this.at));
    else if (event.key === "Enter" && this.at >= 0) this.take(this.at);
    else return;
    event.preventDefault();
  }

  take(at) {
    const [name] = this.found[at];
    const end = this.text.selectionStart;
    this.text.setRangeText(name, end - this.word().length, end, "end");
    this.close();
    this.text.focus();
  }

  close() {
    this.list.hidden = true;
    this.at = -1;
  }
}
