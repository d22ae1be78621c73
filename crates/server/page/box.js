// The query box: a statement with its result, its plan, or a comparison of its runs with and without sharing. Beside it
// are the tables and their columns.

import { chart, isDrawable } from "./chart.js";
import { Completion } from "./complete.js";
import { ofText, plan } from "./plan.js";
import { send } from "./stream.js";
import { button, bytes, count, element, quoted, time, write } from "./words.js";

export class Box {
  constructor(node) {
    this.node = node;
    this.form = node.querySelector("form");
    this.text = node.querySelector("textarea");
    this.outcome = node.querySelector("#outcome");
    this.forms = node.querySelector("#forms");
    this.result = node.querySelector("#result");
    this.schema = node.querySelector("#schema");
    this.completion = new Completion(this.text, node.querySelector("#words"));
    this.history = [];
    this.at = 0;
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.run(rows); });
    for (const [id, way] of [["explain", explained], ["analyze", analyzed], ["compare", compared]]) {
      node.querySelector(`#${id}`).addEventListener("click", () => this.run(way));
    }
    this.text.addEventListener("keydown", (event) => this.key(event));
  }

  tables(tables) {
    this.completion.tables = tables;
    const [table] = [...tables].sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0));
    const sample = table ? `SELECT count(*) FROM ${quoted(table.name)}` : "SELECT 1";
    this.text.placeholder = sample;
    if (!this.text.value && table) this.text.value = sample;
    this.schema.replaceChildren(...tables.map(({ name, columns }) => {
      const items = columns.map((column) => element("li", "", this.inserting(column.name), element("small", "", column.type)));
      return element("details", "", element("summary", "", name), element("ul", "", ...items));
    }));
  }

  /** A button that inserts a name at the cursor. */
  inserting(name) {
    return button(name, () => {
      const { selectionStart, selectionEnd } = this.text;
      this.text.setRangeText(quoted(name), selectionStart, selectionEnd, "end");
      this.text.focus();
    });
  }

  /** Puts a statement into the box. */
  put(sql) {
    this.text.value = sql;
    this.text.focus();
    this.node.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(rows); }
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step && event.altKey && this.history.length > 0) {
      event.preventDefault();
      this.at = Math.max(0, Math.min(this.history.length - 1, this.at + step));
      this.text.value = this.history[this.at];
    }
  }

  /** Runs the statement in one of the ways below. */
  async run(way) {
    const sql = this.text.value.trim().replace(/;$/, "");
    if (!sql) return;
    if (this.history.at(-1) !== sql) this.history.push(sql);
    this.at = this.history.length;
    const number = (this.number ?? 0) + 1;
    this.number = number;
    const started = performance.now();
    const ticking = setInterval(() => this.say(`${time(performance.now() - started)} …`), 200);
    this.say("…");
    try {
      const shown = await way(sql);
      clearInterval(ticking);
      if (this.number === number) this.show(shown);
    } catch (error) {
      if (this.number === number) { this.show({ said: "" }); this.say(error.message, true); }
    } finally {
      clearInterval(ticking);
    }
  }

  say(text, wrong = false) {
    this.outcome.classList.toggle("wrong", wrong);
    write(this.outcome, text);
  }

  show({ node, said, answer }) {
    this.result.replaceChildren(...(node ? [node] : []));
    this.say(said);
    this.forms.replaceChildren(...(answer?.columns.length > 0 ? [this.csv(answer)] : []));
    if (answer && isDrawable(answer)) this.forms.prepend(this.chart(answer, node));
  }

  /** A button that shows the result as lines, and as a table again. */
  chart(answer, rowsShown) {
    const turn = button("Chart", () => {
      const drawn = turn.textContent === "Chart" ? chart(answer) : null;
      this.result.replaceChildren(drawn ? drawn.node : rowsShown);
      drawn?.draw();
      write(turn, drawn ? "Table" : "Chart");
    });
    return turn;
  }

  csv({ columns, rows, more }) {
    const field = (text) => (text === null ? "" : /[",\r\n]/.test(text) || text === "" ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [columns.map(({ name }) => name), ...rows].map((line) => line.map(field).join(","));
    const link = element("a", "", more ? `CSV of the first ${count(rows.length)} rows` : "CSV");
    link.download = "result.csv";
    link.href = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "text/csv" }));
    if (this.file) URL.revokeObjectURL(this.file);
    this.file = link.href;
    return link;
  }
}

const howMuch = ({ read, spared }) => `${read + spared > 0 ? `, ${bytes(read)} read` : ""}${spared > 0 ? `, ${bytes(spared)} without reading` : ""}`;

async function rows(sql) {
  const answer = await send("/api/sql", { sql });
  const { rows: all, more, ms } = answer;
  const shown = `${more ? `the first ${count(all.length)}` : count(all.length)} ${all.length === 1 && !more ? "row" : "rows"}`;
  return { node: table(answer), said: `${shown}, ${time(ms)}${howMuch(answer)}`, answer };
}

async function explained(sql) {
  const { rows: lines } = await send("/api/sql", { sql: `EXPLAIN ${sql}` });
  return { node: plan(ofText(lines.map(([line]) => line ?? "").join("\n"))), said: "" };
}

async function analyzed(sql) {
  const { operators, ms, rows: made } = await send("/api/plan", { sql });
  return { node: plan(operators), said: `${count(made)} ${made === 1 ? "row" : "rows"}, ${time(ms)}` };
}

/** Without sharing first, so that the other run cannot profit from its reads in the engine's buffer. */
async function compared(sql) {
  const alone = await send("/api/sql", { sql, shared: false });
  const shared = await send("/api/sql", { sql });
  const runs = [["without sharing", alone], ["with sharing", shared]];
  const most = (of) => Math.max(1e-9, ...runs.map(([, run]) => of(run)));
  const bar = (kind, of, run, text) => {
    const piece = element("i", kind);
    piece.style.transform = `scaleX(${of(run) / most(of)})`;
    return element("div", "share", element("div", "", piece), element("span", "", text));
  };
  const lines = runs.map(([name, run]) => {
    const head = element("th", "", name);
    head.scope = "row";
    const [took, read] = [({ ms }) => ms, ({ read: got }) => got];
    return element("tr", "", head, element("td", "", bar("work", took, run, time(run.ms))), element("td", "", bar("own", read, run, `${bytes(run.read)} read`)));
  });
  const heads = ["", "time", "bytes read"].map((text) => element("th", "", text));
  const node = element("table", "plan", element("thead", "", element("tr", "", ...heads)), element("tbody", "", ...lines));
  const same = JSON.stringify([...alone.rows].sort()) === JSON.stringify([...shared.rows].sort());
  const rowsSame = alone.more || shared.more ? "" : same ? "the same rows" : "other rows, as of a statement whose rows are not determined";
  return { node, said: rowsSame };
}

function table({ columns, rows: lines }) {
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
  const body = lines.map((row) => element("tr", "", ...row.map((text, at) => cell(columns[at], text))));
  return element("table", "", element("thead", "", element("tr", "", ...heads)), element("tbody", "", ...body));
}
