// A result as lines: its first column, a number or a time, along the bottom, and each column of numbers as a line.

import { colours, element, fit } from "./words.js";

const [LEFT, BOTTOM, TOP, RIGHT, HEIGHT] = [64, 20, 10, 10, 260];
const LINES_MAX = 6;

/** A value on a line's axis. */
const place = (column, text) => (column.time ? Date.parse(text.replace(" ", "T").replace(/\+00$/, "Z")) : Number(text));

/** Returns true if a result can be drawn. */
export function isDrawable({ columns, rows }) {
  if (rows.length < 2 || columns.length < 2 || !(columns[0].number || columns[0].time)) return false;
  return columns.slice(1).some((column) => column.number) && rows.every(([first]) => first !== null && !Number.isNaN(place(columns[0], first)));
}

/** The drawing, which needs `draw` to be called once it is on the page. */
export function chart({ columns, rows }) {
  const along = rows.map(([first]) => place(columns[0], first));
  const order = [...along.keys()].sort((a, b) => along[a] - along[b]);
  const lines = columns.map((column, at) => ({ name: column.name, at, number: column.number && at > 0 }));
  const shown = lines.filter(({ number }) => number).slice(0, LINES_MAX);
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${shown.map(({ name }) => name).join(", ")} by ${columns[0].name}`);
  const keys = shown.map(({ name }, line) => element("li", "", element("i", `key q${line}`), name));
  const node = element("div", "chart", element("ul", "legend", ...keys), canvas);
  const draw = () => {
    const { context, width, height } = fit(canvas, HEIGHT);
    const theme = colours();
    const values = shown.flatMap(({ at }) => rows.map((row) => row[at]).filter((text) => text !== null).map(Number)).filter(Number.isFinite);
    const [low, high] = [Math.min(0, ...values), Math.max(...values)];
    const [from, to] = [along[order[0]], along[order.at(-1)]];
    const x = (n) => LEFT + ((n - from) * (width - LEFT - RIGHT)) / (to - from || 1);
    const y = (n) => height - BOTTOM - ((n - low) * (height - BOTTOM - TOP)) / (high - low || 1);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.line;
    context.fillRect(LEFT, y(Math.max(low, 0)), width - LEFT - RIGHT, 1);
    context.fillStyle = theme.dim;
    context.textAlign = "right";
    const brief = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
    context.fillText(brief.format(high), LEFT - 6, TOP + 8);
    context.fillText(brief.format(low), LEFT - 6, height - BOTTOM);
    context.fillText(rows[order.at(-1)][0], width - RIGHT, height - 4);
    context.textAlign = "left";
    context.fillText(rows[order[0]][0], LEFT, height - 4);
    context.lineWidth = 1.8;
    shown.forEach(({ at }, line) => {
      context.strokeStyle = theme[`q${line}`];
      context.beginPath();
      let started = false;
      for (const row of order) {
        const value = rows[row][at] === null ? NaN : Number(rows[row][at]);
        if (!Number.isFinite(value)) { started = false; continue; }
        context[started ? "lineTo" : "moveTo"](x(along[row]), y(value));
        started = true;
      }
      context.stroke();
    });
  };
  return { node, draw };
}
