// The contents of the buffer, and counters: bytes read, bytes served from the buffer, bytes saved.

import { bytes, count, element, time, write } from "./words.js";

const KINDS = [
  ["encoded", "encoded, as in the files"], ["decoded", "decoded"], ["loading", "on its way"],
  ["workspace", "in use by workers"], ["points", "point reads"],
];
const FIGURES = [
  ["queries", "running queries"], ["saved", "did not have to be read"], ["factor", "uses of each byte read"],
  ["read", "read"], ["delivered", "handed to queries"], ["coming", "loads on their way"], ["waits", "of workers' time is waiting"],
];

/** Time window of rates. */
const RATE_MS = 3000;

export class Ledger {
  constructor(figures, ledger) {
    this.figures = new Map(FIGURES.map(([name, said]) => {
      const [value, more] = [element("b", "", "–"), element("small")];
      figures.append(element("div", name === "saved" ? "figure star" : "figure", value, element("span", "", said), element("br"), more));
      return [name, { value, more }];
    }));
    this.bar = ledger.querySelector(".bar");
    const legend = ledger.querySelector(".legend");
    this.kinds = new Map(KINDS.map(([kind, said]) => {
      const [piece, size] = [element("i", kind), element("span")];
      this.bar.append(piece);
      const key = element("i", `key ${kind === "loading" ? "coming" : kind}`);
      legend.append(element("li", "", key, `${said} `, size));
      return [kind, { piece, size }];
    }));
    this.total = element("li");
    legend.append(this.total);
    this.seen = [];
  }

  clear() { this.seen = []; }

  set(message) {
    const { usage } = message;
    let used = 0;
    for (const [kind, { piece, size }] of this.kinds) {
      piece.style.transform = `translateX(${(100 * used) / usage.budget}%) scaleX(${usage[kind] / usage.budget})`;
      write(size, bytes(usage[kind]));
      used += usage[kind];
    }
    write(this.total, `${bytes(used)} of ${bytes(usage.budget)}`);
    this.bar.setAttribute("aria-label", `The buffer holds ${bytes(used)} of ${bytes(usage.budget)}`);

    if (this.seen.length > 0 && message.t < this.seen[0].t) this.clear();
    this.seen.push(message);
    while (this.seen.length > 2 && this.seen[1].t < message.t - RATE_MS) this.seen.shift();
    const before = this.seen[0];
    const passed = Math.max(1, message.t - before.t);
    const rate = (name) => ((message[name] - before[name]) * 1000) / passed;
    const saved = Math.max(0, message.delivered - message.read);
    const running = message.queries.filter((query) => query.running).length;
    const waited = message.waitMs - before.waitMs;
    const busy = message.decodeMs - before.decodeMs;
    const say = (name, value, more) => {
      const figure = this.figures.get(name);
      write(figure.value, value);
      write(figure.more, more ?? "");
    };
    const queued = message.queries.length - running;
    say("queries", count(running), queued > 0 ? `${queued} wait for their turn` : "");
    say("saved", bytes(saved), message.delivered > 0 ? `${Math.round((100 * saved) / message.delivered)}%` : "");
    say("factor", message.read > 0 ? `${(message.delivered / message.read).toFixed(1)}×` : "–");
    say("read", `${bytes(rate("read"))}/s`, `${bytes(message.read)} in all`);
    say("delivered", `${bytes(rate("delivered"))}/s`, `${bytes(message.delivered)} in all`);
    say("coming", count(message.inFlight), `${count(rate("loads"))} a second`);
    say("waits", waited + busy > 0 ? `${Math.round((100 * waited) / (waited + busy))}%` : "–", `${time(message.waitMs)} in all`);
  }
}
