// The server's messages. A connection that is lost or silent is opened again.

/** Silence after which a connection counts as lost. The server sends a message at least once a second. */
const SILENCE_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

export class Stream {
  /** `onMessage(message, isFirst)`, `onState("live" | "lost")`. */
  constructor(url, onMessage, onState) {
    Object.assign(this, { url, onMessage, onState, failures: 0, heard: 0, first: true });
    this.open();
    setInterval(() => this.check(), 1000);
    window.addEventListener("online", () => this.again(0));
  }

  open() {
    this.source?.close();
    this.first = true;
    this.heard = performance.now();
    const source = new EventSource(this.url);
    this.source = source;
    source.onmessage = (event) => {
      this.heard = performance.now();
      this.failures = 0;
      this.onState("live");
      this.onMessage(JSON.parse(event.data), this.first);
      this.first = false;
    };
    source.onerror = () => this.again();
  }

  again(after) {
    if (this.waiting !== undefined) return;
    this.source?.close();
    this.onState("lost");
    const wait = after ?? RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.failures += 1;
    this.waiting = setTimeout(() => { this.waiting = undefined; this.open(); }, wait);
  }

  check() {
    if (this.waiting === undefined && performance.now() - this.heard > SILENCE_MS) this.again();
  }
}

/** Sends a request to the server. Throws the server's error. */
export async function send(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-coscan": "page" },
    body: JSON.stringify(body ?? {}),
  });
  const text = await response.text();
  let answer;
  try { answer = JSON.parse(text); } catch { answer = { error: text.trim() }; }
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}

export async function ask(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error((await response.text()).trim() || response.statusText);
  return response.json();
}
