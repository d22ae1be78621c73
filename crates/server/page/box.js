// The query box: a statement, its result as a table, or its plan as a tree.

import { send } from "./stream.js";
import { bytes, count, element, time, write } from "./words.js";

export class Box {
  constructor(node) {
    this.form = node.querySelector("form");
    this.text = node.querySelector("textarea");
    this.outcome = node.querySelector("#outcome");
    this.result = node.querySelector("#result");
    this.history = [];
    this.at = 0;
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.run(""); });
    for (const button of this.form.querySelectorAll("[data-prefix]")) {
      button.addEventListener("click", () => this.run(button.dataset.prefix));
    }
    this.text.addEventListener("keydown", (event) => this.key(event));
  }

  about({ tables }) {
    const [table] = tables;
    this.text.placeholder = table ? `SELECT count(*) FROM ${table}` : "SELECT 1";
    if (!this.text.value && table) this.text.value = `SELECT count(*) FROM ${table}`;
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(""); }
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step && event.altKey && this.history.length > 0) {
      event.preventDefault();
      this.at = Math.max(0, Math.min(this.history.length - 1, this.at + step));
      this.text.value = this.history[this.at];
    }
  }

  async run(prefix) {
    const sql = this.text.value.trim();
    if (!sql) return;
    if (this.history.at(-1) !== sql) this.history.push(sql);
    this.at = this.history.length;
    const number = (this.number ?? 0) + 1;
    this.number = number;
    const started = performance.now();
    const ticking = setInterval(() => this.say(`${time(performance.now() - started)} …`), 200);
    this.say("…");
    try {
      const answer = await send("/api/sql", { sql: prefix ? `${prefix} ${sql}` : sql });
      clearInterval(ticking);
      if (this.number === number) this.show(answer, prefix);
    } catch (error) {
      if (this.number === number) { this.result.replaceChildren(); this.say(error.message, true); }
    } finally {
      clearInterval(ticking);
    }
  }

  say(text, wrong = false) {
    this.outcome.classList.toggle("wrong", wrong);
    write(this.outcome, text);
  }

  show(answer, prefix) {
    const { rows, more, ms, read, spared } = answer;
    const plan = prefix && rows.map((row) => row[0] ?? "").join("\n");
    this.result.replaceChildren(plan ? tree(plan) : table(answer));
    const shown = plan ? "" : `${more ? `the first ${count(rows.length)}` : count(rows.length)} ${rows.length === 1 && !more ? "row" : "rows"}, `;
    const shared = spared > 0 ? `, ${bytes(spared)} without reading` : "";
    this.say(`${shown}${time(ms)}${read + spared > 0 ? `, ${bytes(read)} read` : ""}${shared}`);
  }
}

function table({ columns, rows }) {
  if (columns.length === 0) return element("p", "hint", "Done.");
  const cell = (column, text) => {
    const made = element("td", column.number ? "number" : "");
    if (text === null) { made.textContent = "null"; made.className += " null"; } else made.textContent = text;
    if (text !== null && text.length > 60) made.title = text;
    return made;
  };
  const heads = columns.map((column) => {
    const head = element("th", column.number ? "number" : "", column.name, element("small", "", column.type));
    head.scope = "col";
    return head;
  });
  const lines = rows.map((row) => element("tr", "", ...row.map((text, at) => cell(columns[at], text))));
  return element("table", "", element("thead", "", element("tr", "", ...heads)), element("tbody", "", ...lines));
}

/** A plan's lines as a tree, with cooperative scans highlighted. */
function tree(plan) {
  const root = element("ul", "plan");
  const open = [{ depth: -1, list: root }];
  for (const line of plan.split("\n").filter((text) => text.trim())) {
    const depth = line.length - line.trimStart().length;
    while (open.at(-1).depth >= depth) open.pop();
    const [, name, rest] = line.trim().match(/^([^:,]+)(.*)$/s) ?? [null, line.trim(), ""];
    const shared = /CScan/.test(line);
    const item = element("li", shared ? "shared" : "", element("span", "", element("b", "", name), element("em", "", rest)));
    const list = element("ul");
    const parent = open.at(-1);
    parent.list.append(item);
    item.append(list);
    open.push({ depth, list });
  }
  return root;
}
