// Savings of sharing since the start: bytes handed to queries against bytes read, over time and for each span with one
// policy and one size of the buffer.

import { ask } from "./stream.js";
import { bytes, colours, element, fit, time } from "./words.js";

const EVERY_MS = 1000;
const LOOKS_MAX = 1200;
const SPANS_SHOWN = 5;
const [LEFT, BOTTOM, TOP, RIGHT] = [58, 18, 10, 8];

export class Savings {
  constructor(node) {
    this.canvas = node.querySelector("canvas");
    this.rows = node.querySelector("tbody");
    this.recolour();
    this.clear();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  recolour() {
    this.theme = colours();
    if (this.looks) this.draw();
  }

  clear() { Object.assign(this, { looks: [], spans: [] }); }

  /** Gets what happened before the page was opened. */
  async load() {
    const { looks, spans } = await ask("/api/history");
    const last = looks.at(-1)?.[0] ?? 0;
    this.looks = [...looks, ...this.looks.filter(([t]) => t > last)];
    if (spans.length > 0) this.spans = spans;
    this.draw();
  }

  set({ t, read, delivered, policy, buffer }) {
    if (this.looks.length > 0 && t < this.looks.at(-1)[0]) this.clear();
    const span = this.spans.at(-1);
    if (!span || span.policy !== policy || span.buffer !== buffer) this.spans.push({ t, read, delivered, policy, buffer });
    if (this.looks.length > 0 && t < this.looks.at(-1)[0] + EVERY_MS) return;
    this.looks.push([t, read, delivered]);
    if (this.looks.length > LOOKS_MAX) this.looks = this.looks.filter((_, at) => at % 2 === 0);
    this.draw();
  }

  draw() {
    if (this.looks.length === 0 || this.canvas.clientWidth === 0) return;
    const { context, width, height } = fit(this.canvas);
    const { theme, looks } = this;
    const [[from], [to, , most]] = [looks[0], looks.at(-1)];
    const x = (t) => LEFT + ((t - from) * (width - LEFT - RIGHT)) / Math.max(1, to - from);
    const y = (n) => height - BOTTOM - (n * (height - BOTTOM - TOP)) / Math.max(1, most);
    const line = (which) => looks.forEach((look, at) => context[at === 0 ? "moveTo" : "lineTo"](x(look[0]), y(look[which])));
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.line;
    context.fillRect(LEFT, height - BOTTOM, width - LEFT - RIGHT, 1);
    context.fillStyle = theme.dim;
    context.textAlign = "right";
    context.fillText(bytes(most), LEFT - 6, TOP + 8);
    context.fillText("0", LEFT - 6, height - BOTTOM);
    context.textAlign = "left";
    context.fillText(`${time(to - from)} ago`, LEFT, height - 4);
    context.textAlign = "right";
    context.fillText("now", width - RIGHT, height - 4);
    context.globalAlpha = 0.22;
    context.fillStyle = theme.good;
    context.beginPath();
    line(2);
    for (const [t, read] of [...looks].reverse()) context.lineTo(x(t), y(read));
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    for (const [which, colour] of [[2, theme.accent], [1, theme.coming]]) {
      context.strokeStyle = colour;
      context.beginPath();
      line(which);
      context.stroke();
    }
    context.fillStyle = theme.dim;
    for (const { t } of this.spans.slice(1)) if (t > from) context.fillRect(x(t), TOP, 1, height - BOTTOM - TOP);
    this.table();
  }

  table() {
    const [t, read, delivered] = this.looks.at(-1);
    const ends = [...this.spans.slice(1), { t, read, delivered }];
    const rows = this.spans.map((span, at) => {
      const [got, handed] = [ends[at].read - span.read, ends[at].delivered - span.delivered];
      const uses = got > 0 ? `${(handed / got).toFixed(1)}×` : handed > 0 ? "nothing read" : "–";
      const cells = [span.policy, bytes(span.buffer), time(ends[at].t - span.t), bytes(got), bytes(handed), uses];
      return element("tr", "", ...cells.map((cell) => element("td", "", cell)));
    });
    this.rows.replaceChildren(...rows.reverse().slice(0, SPANS_SHOWN));
  }
}
