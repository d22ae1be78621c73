// Tables, connection and samples for newcomers.

import { send } from "./stream.js";
import { button, bytes, count, element, quoted, sharing, time, write } from "./words.js";

const KEPT = "coscan-start";

export class Start {
  /** `onPick(statement)` puts a statement into the query box. */
  constructor(node, onPick) {
    Object.assign(this, { node, onPick });
    this.list = node.querySelector(".tables");
    this.connection = node.querySelector("#connection");
    this.button = node.querySelector("#samples");
    this.outcome = node.querySelector(".outcome");
    this.statements = node.querySelector("ol");
    this.button.addEventListener("click", () => this.samples());
    node.querySelector("#copy").addEventListener("click", (event) => this.copy(event.target));
    node.querySelector("summary").addEventListener("click", () => {
      try { localStorage.setItem(KEPT, node.open ? "closed" : "open"); } catch { /* The choice lasts until the page is closed. */ }
    });
  }

  /** Opens the panel on a server that has run no statement, until the user decides. */
  fresh(isFresh) {
    let kept;
    try { kept = localStorage.getItem(KEPT); } catch { /* As if nothing were kept. */ }
    this.node.open = kept ? kept === "open" : isFresh;
  }

  about({ user, ports, tls }) {
    const here = Number(location.port);
    const port = ports.includes(here) ? here : ports[0];
    const secure = tls ? " sslmode=require" : "";
    write(this.connection, `psql "host=${location.hostname} port=${port} user=${user} dbname=coscan${secure}"`);
  }

  tables(tables) {
    const items = tables.map(({ name, rows, bytes: size, columns }) => {
      const pick = button(name, () => this.onPick(`SELECT * FROM ${quoted(name)} LIMIT 10`));
      pick.title = `Ask for rows of ${name}`;
      const known = [rows === null ? null : `${count(rows)} ${rows === 1 ? "row" : "rows"}`, size === null ? null : bytes(size)];
      const words = [...known.filter(Boolean), `${columns.length} columns`].join(" · ");
      return element("li", "", pick, element("span", "hint", words));
    });
    this.list.replaceChildren(...items);
    this.button.disabled = tables.length === 0;
    if (tables.length === 0) this.list.append(element("li", "hint", "The server has no tables: start it with --table NAME=PATH."));
  }

  async copy(pressed) {
    const text = this.connection.textContent;
    try {
      await navigator.clipboard.writeText(text);
      write(pressed, "Copied");
    } catch {
      // Without HTTPS a page may not write to the clipboard: the text is selected instead.
      getSelection().selectAllChildren(this.connection);
      write(pressed, "Selected");
    }
    setTimeout(() => write(pressed, "Copy"), 2000);
  }

  async samples() {
    this.button.disabled = true;
    write(this.outcome, "running");
    this.statements.replaceChildren();
    try {
      this.show(await send("/api/samples"));
    } catch (error) {
      write(this.outcome, error.message);
    }
    this.button.disabled = false;
  }

  show({ table, ms, statements }) {
    const sum = (name) => statements.reduce((all, { outcome }) => all + (outcome[name] ?? 0), 0);
    const [read, spared] = [sum("read"), sum("spared")];
    const uses = read > 0 ? `: each byte was used ${((read + spared) / read).toFixed(1)} times` : "";
    write(this.outcome, `over ${table}: ${time(ms)} for all, ${bytes(read + spared)} needed, ${bytes(read)} read${uses}`);
    const most = Math.max(1, ...statements.map(({ outcome }) => (outcome.read ?? 0) + (outcome.spared ?? 0)));
    this.statements.replaceChildren(...statements.map(({ sql, ms: took, outcome }) => {
      const code = element("code", "", sql);
      code.title = sql;
      const end = outcome.error ? element("span", "wrong", outcome.error) : sharing(outcome, most);
      return element("li", "", code, end, element("span", "hint", time(took)));
    }));
  }
}
