// A plan: for each operator its rows, its share of the time, and what it got without a read. The rest is folded away.

import { bytes, count, element, operator, sharing, time } from "./words.js";

/** The operators of a plan's text, whose lines are indented. */
export function ofText(text) {
  const open = [];
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const indent = line.length - line.trimStart().length;
    while (open.length > 0 && open.at(-1) >= indent) open.pop();
    open.push(indent);
    const [, name, detail] = line.trim().match(/^([^:,]+)[:,]?\s*(.*)$/s) ?? [null, line.trim(), ""];
    return { depth: open.length - 1, name, detail };
  });
}

/** Without operators that only pass rows on, and count neither rows nor work. */
function working(operators) {
  const open = [];
  return operators.flatMap((of) => {
    while (open.length > 0 && open.at(-1) >= of.depth) open.pop();
    if (of.rows === null && of.ms === 0 && of.read === null) return [];
    open.push(of.depth);
    return [{ ...of, depth: open.length - 1 }];
  });
}

/** The plan as a table with one row for each operator. */
export function plan(all) {
  const ran = all.some(({ rows }) => rows !== undefined);
  const operators = ran ? working(all) : all;
  const whole = operators.reduce((all, { ms }) => all + (ms ?? 0), 0);
  const most = Math.max(1, ...operators.map(({ read, spared }) => (read ?? 0) + (spared ?? 0)));
  const heads = ran ? ["operator", "rows", "share of the work", "bytes of scans"] : ["operator"];
  const head = heads.map((text) => { const made = element("th", "", text); made.scope = "col"; return made; });
  const rows = operators.map((of) => {
    const isShared = /\bCScan\b/.test(of.detail);
    const name = isShared ? `shared scan${of.table ? ` of ${of.table}` : ""}` : `${operator(of.name)}${of.table ? ` of ${of.table}` : ""}`;
    const more = element("details", "", element("summary", isShared ? "shared" : "", name));
    const counters = Object.entries(of.counters ?? {}).map(([key, value]) => element("li", "", `${key} ${value}`));
    more.append(element("p", "", of.detail));
    if (counters.length > 0) more.append(element("ul", "counters", ...counters));
    const cells = [element("td", "", more)];
    cells[0].style.paddingLeft = `${4 + 14 * Math.min(of.depth, 24)}px`;
    if (ran) {
      const share = whole > 0 ? of.ms / whole : 0;
      const bar = element("i", "work");
      bar.style.transform = `scaleX(${share})`;
      const work = element("div", "share", element("div", "", bar), element("span", "", `${Math.round(100 * share)}% · ${time(of.ms)}`));
      const read = of.read === null ? "" : element("div", "share", sharing({ read: of.read, spared: of.spared ?? 0 }, most), element("span", "", `${bytes(of.read)} read${of.spared ? `, ${bytes(of.spared)} spared` : ""}`));
      cells.push(element("td", "number", of.rows === null ? "" : count(of.rows)), element("td", "", work), element("td", "", read));
    }
    return element("tr", "", ...cells);
  });
  return element("table", "plan", element("thead", "", element("tr", "", ...head)), element("tbody", "", ...rows));
}
