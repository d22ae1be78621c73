// The page: passes the server's messages to its parts, and draws at most sixty times a second.

import { Box } from "./box.js";
import { Controls, theme } from "./controls.js";
import { Finished } from "./finished.js";
import { Ledger } from "./ledger.js";
import { Loads } from "./loads.js";
import { Maps } from "./map.js";
import { Queries } from "./queries.js";
import { Savings } from "./savings.js";
import { Start } from "./start.js";
import { Stream, ask } from "./stream.js";
import { write } from "./words.js";
import { Workers } from "./workers.js";

const at = (id) => document.getElementById(id);
const said = at("said");
const say = (error) => write(said, error ? error.message : "");

const maps = new Maps(document.querySelector("#maps .tables"), at("cell"));
const loads = new Loads(at("loads"));
const ledger = new Ledger(at("figures"), at("ledger"));
const onNeeded = (needed, query) => { maps.mark(needed, query); loads.mark(needed, query); };
const queries = new Queries(at("queries"), onNeeded, say);
const savings = new Savings(at("savings"));
const controls = new Controls(say);
const box = new Box(at("box"));
const put = (sql) => box.put(sql);
const start = new Start(at("start"), put);
const finished = new Finished(at("finished"), put);
const workers = new Workers(at("workers"));
theme(() => { maps.recolour(); loads.recolour(); savings.recolour(); });

const still = window.matchMedia("(prefers-reduced-motion: reduce)");
let drawn = 0;
function draw(now) {
  // With reduced motion, changes are drawn at once, and time advances in steps.
  if (!still.matches || now - drawn > 250) { loads.draw(now); drawn = now; }
  maps.draw(now, still.matches);
  requestAnimationFrame(draw);
}
requestAnimationFrame(draw);

async function about() {
  const answer = await ask("/api/about");
  Object.assign(queries, { admin: answer.admin, user: answer.user });
  controls.about(answer);
  start.about(answer);
  workers.watch();
  await savings.load();
  const tables = await ask("/api/tables");
  box.tables(tables);
  start.tables(tables);
}

function onMessage(message, first) {
  if (first) {
    // All state is replaced: another server may answer.
    loads.clear();
    ledger.clear();
    queries.clear();
    savings.clear();
    finished.clear();
    start.fresh(message.queries.length + message.finished.length === 0);
  }
  maps.set(message.all, message.tables);
  loads.set(message);
  ledger.set(message);
  queries.set(message);
  savings.set(message);
  finished.add(message.finished);
  controls.set(message);
}

const link = at("link");
function onState(state) {
  if (link.className === state) return;
  link.className = state;
  write(link, state === "live" ? "live" : "the connection is lost, trying again");
  if (state === "live") about().catch(say);
}

about().catch(say).finally(() => new Stream("/api/events", onMessage, onState));
