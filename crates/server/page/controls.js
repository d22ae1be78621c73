// Policy and buffer size for administrators, and the theme for all users.

import { send } from "./stream.js";
import { bytes, write } from "./words.js";

const SMALLEST = 8e6;

export class Controls {
  constructor(onError) {
    this.policy = document.getElementById("policy");
    this.buffer = document.getElementById("buffer");
    this.size = document.getElementById("buffer-size");
    this.most = SMALLEST * 2;
    this.policy.addEventListener("change", () => this.act("/api/policy", { policy: this.policy.value }, onError));
    this.buffer.addEventListener("input", () => { this.moving = true; write(this.size, bytes(this.chosen())); });
    this.buffer.addEventListener("change", async () => {
      await this.act("/api/buffer", { bytes: Math.round(this.chosen()) }, onError);
      this.moving = false;
    });
  }

  about({ admin, policies, memory }) {
    this.policy.replaceChildren(...policies.map((name) => new Option(name, name)));
    this.most = Math.max(SMALLEST * 2, memory * 0.75);
    this.policy.disabled = this.buffer.disabled = !admin;
    const why = admin ? "" : "Only administrators may change it";
    this.policy.title = this.buffer.title = why;
    this.known = true;
  }

  /** The slider is logarithmic. */
  chosen() { return SMALLEST * (this.most / SMALLEST) ** (this.buffer.value / 1000); }

  set({ policy, buffer }) {
    if (!this.known) return;
    if (document.activeElement !== this.policy && this.policy.value !== policy) this.policy.value = policy;
    if (this.moving) return;
    const place = (1000 * Math.log(buffer / SMALLEST)) / Math.log(this.most / SMALLEST);
    this.buffer.value = Math.max(0, Math.min(1000, place));
    write(this.size, bytes(buffer));
    this.buffer.setAttribute("aria-valuetext", bytes(buffer));
  }

  async act(path, body, onError) {
    try { await send(path, body); onError(null); } catch (error) { onError(error); }
  }
}

/** Light or dark: the system's theme until the user chooses one. */
export function theme(onChange) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const say = (name) => { root.dataset.theme = name; onChange(); };
  const kept = () => { try { return localStorage.getItem("coscan-theme"); } catch { return null; } };
  say(kept() ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => { if (!kept()) say(dark.matches ? "dark" : "light"); });
  const turn = () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("coscan-theme", next); } catch { /* The choice lasts until the page is closed. */ }
    say(next);
  };
  document.getElementById("theme").addEventListener("click", turn);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("textarea, input, select");
    if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey && event.key.toLowerCase() === "t") turn();
  });
}
