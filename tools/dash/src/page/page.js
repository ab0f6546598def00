// Asks the MGS twice a second how the cluster is and shows it. What did not change is not touched, so that focus, selection
// and a screen reader's place stay where they are.

import { bytes, bytesPerSecond, chart, make, micros, perSecond, short, span } from "./draw.js";

const PICTURE_MS = 500, DETAIL_MS = 2000, PATIENCE_MS = 4000;
const $ = id => document.getElementById(id);
const COLOUR = {
  up: "good", FULL: "good", starting: "warn", stopping: "warn", recovering: "warn", silent: "warn",
  down: "bad", failed: "bad", EVICTED: "bad", stopped: "idle",
};
let picture = null, detail = null, heard = performance.now(), states = new Map();

// ---- tables: a row for each key, a cell for each column ----

function put(cell, value) {
  if (value instanceof Node) {
    if (cell.firstChild?.outerHTML !== value.outerHTML || cell.childNodes.length !== 1) cell.replaceChildren(value);
  } else if (cell.textContent !== String(value)) cell.textContent = value;
}

/** Gives an element the children of another one, if they differ. */
function same(element, fresh) {
  if (element.innerHTML !== fresh.innerHTML) element.replaceChildren(...fresh.childNodes);
}

function table(element, caption, columns, rows, key, bad = () => false) {
  if (!element.tHead) {
    const head = make("tr");
    for (const column of columns) head.append(make("th", { scope: "col", class: column.class ?? "" }, column.name));
    element.append(make("caption", { class: "unseen" }, caption), make("thead", {}, head), make("tbody"));
  }
  const body = element.tBodies[0], known = new Map([...body.rows].map(row => [row.dataset.key, row]));
  rows.forEach((row, n) => {
    let line = known.get(key(row));
    known.delete(key(row));
    if (!line) {
      line = make("tr", { "data-key": key(row) });
      columns.forEach((column, at) => line.append(make(at ? "td" : "th", { class: column.class ?? "", "data-field": column.field ?? column.name, ...(at ? {} : { scope: "row" }) })));
    }
    if (body.rows[n] !== line) body.insertBefore(line, body.rows[n] ?? null);
    line.classList.toggle("bad", bad(row));
    columns.forEach((column, at) => {
      put(line.cells[at], column.show(row));
      if (column.title) line.cells[at].title = column.title(row);
    });
  });
  known.forEach(line => line.remove());
}

const state = (word, note = "") => {
  const element = make("span", { class: `state ${COLOUR[word] ?? "idle"}` }, word);
  if (note) element.title = note;
  return element;
};
const link = (of, text) => make("a", { href: `#${of}` }, text);
const space = row => {
  if (!row.space || !row.space.bytes_total) return "–";
  const part = 1 - row.space.bytes_free / row.space.bytes_total, percent = Math.round(part * 100);
  const fill = make("i"), bar = make("span", { class: part > 0.95 ? "bar full" : "bar", "aria-hidden": "true" }, fill);
  fill.style.width = `${percent}%`;
  return make("span", { class: "space" }, bar, `${percent}% of ${bytes(row.space.bytes_total)}`);
};

const RATES = [
  { name: "Requests", field: "requests", class: "w1", show: row => perSecond(row.rates.requests) },
  { name: "Read", show: row => bytesPerSecond(row.rates.read) },
  { name: "Written", show: row => bytesPerSecond(row.rates.written) },
  { name: "Mean", class: "w2", show: row => micros(row.rates.micros), title: () => "mean time of a request, last two seconds" },
  { name: "99 %", class: "w3", show: row => micros(row.rates.p99), title: () => "99 of 100 requests took at most this" },
];

function targets() {
  table($("targets"), "Targets with state, space and rates", [
    { name: "Target", class: "left", show: row => link(`target/${row.name}`, row.name) },
    { name: "State", class: "left", show: row => state(row.state, row.note) },
    { name: "Host", class: "left w3 long", show: row => row.host || "–", title: row => `${row.place} (process ${row.pid}) ${row.nids.join(" ")}` },
    { name: "Space used", class: "left w2", show: space },
    ...RATES,
    { name: "At work", field: "in_flight", class: "w3", show: row => short(row.counts.in_flight), title: () => "requests without an answer" },
    { name: "Locks", class: "w3", show: row => row.kind === "mdt" ? short(row.locks) : "–" },
    { name: "Sessions", class: "w3", show: row => short(row.sessions) },
  ], picture.targets, row => row.name, row => COLOUR[row.state] === "bad");
}

function clients() {
  table($("clients"), "Clients with state and rates", [
    { name: "Client", class: "left long", show: row => link(`client/${row.client}`, `${row.host}:${row.at}`), title: row => row.client },
    { name: "State", class: "left", show: row => state(row.state) },
    ...RATES,
    { name: "Waiting", class: "w2", show: row => short(row.waiting), title: () => "requests of programs that wait now" },
    { name: "Dirty", field: "dirty", class: "w3", show: row => row.dirty_bytes ? bytes(row.dirty_bytes) : "–", title: () => "written, not yet stored by OSTs" },
    { name: "Locks", class: "w3", show: row => short(row.locks), title: () => "inodes of which it holds locks" },
    { name: "Open", class: "w3", show: row => short(row.open_files), title: () => "open files" },
    { name: "Sessions", class: "w3", show: row => `${row.sessions_full}/${row.sessions}`, title: () => "in service, of all" },
  ], picture.clients, row => row.client, row => COLOUR[row.state] === "bad");
  $("clients").parentElement.hidden = !picture.clients.length;
  $("no-clients").hidden = picture.clients.length > 0;
}

function processes() {
  table($("processes"), "Processes with state, memory and load", [
    { name: "Process", class: "left long", show: row => `${row.host}:${row.place}`, title: row => row.place },
    { name: "State", class: "left", show: row => state(row.state) },
    { name: "Runs for", show: row => span(row.uptime_ms) },
    { name: "CPU", show: row => row.cores > 0.005 ? `${(row.cores * 100).toFixed(0)} %` : "–", title: () => "of one core, last two seconds" },
    { name: "Memory", class: "w2", show: row => bytes(row.memory_bytes) },
    { name: "Process id", class: "w2 dim", show: row => row.pid },
    { name: "Metrics at", class: "w3 left dim", show: row => row.http || "–" },
    { name: "Version", class: "w3 dim", show: row => row.version },
  ], picture.processes, row => `${row.host} ${row.place}`, row => COLOUR[row.state] === "bad");
}

// ---- what waits for whom ----

function wait(chain) {
  const who = chain.pid ? `${chain.program} (process ${chain.pid}) on ${chain.host}` : `${chain.program} on ${chain.host}`;
  const head = make("div", {}, make("time", {}, span(chain.age_ms)), make("b", {}, chain.operation), ` by ${who}`);
  if (chain.at) head.append(` at ${chain.at}`);
  if (chain.fid) head.append(" ", make("code", {}, chain.fid));
  const steps = make("ol");
  for (const step of chain.steps) steps.append(make("li", {}, `${step.text} (${span(step.age_ms)})`));
  for (const holder of chain.holders) {
    const name = holder.description || holder.client;
    const text = `${name} at ${holder.nid} ${holder.holds ? `holds ${holder.holds}` : "comes first"}${holder.pid ? `, process ${holder.pid}` : ""}`;
    steps.append(make("li", { class: "holder" }, text));
  }
  if (!chain.steps.length) steps.append(make("li", {}, "waits within its mount: for other requests of it, or for room"));
  return make("li", {}, head, steps);
}

const waits = (list, chains) => same(list, make("ol", {}, ...chains.map(wait)));

// ---- recovery ----

function progress({ expected, back, left_ms }) {
  const bar = make("progress", { max: Math.max(expected, 1), value: back, "aria-label": "clients that came back" });
  return make("span", { class: "progress" }, bar, ` ${back} of ${expected} client${expected === 1 ? "" : "s"}, ${span(left_ms)} left at most`);
}

function recoveries() {
  const rows = picture.targets.filter(row => row.state === "recovering" && row.recovery);
  $("recovery").hidden = !rows.length;
  same($("recoveries"), make("ul", {}, ...rows.map(row => make("li", {}, link(`target/${row.name}`, row.name), progress(row.recovery)))));
}

// ---- logs that hosts share ----

const LOGS = [
  { name: "Log", class: "left", show: row => row.target },
  { name: "Host", class: "left", show: row => row.host },
  { name: "Role", class: "left", show: row => row.owner ? "owner" : "standby" },
  { name: "Behind", show: row => Math.max(row.head - row.applied, 0) },
  { name: "Epoch", show: row => row.epoch },
  { name: "Entries kept", show: row => row.first > row.head ? "none" : `${row.first} to ${row.head}` },
];

function logs() {
  $("shared").hidden = !picture.logs.length;
  const rows = picture.logs.flatMap(({ hosts, ...log }) => hosts.map(host => ({ ...log, ...host })));
  table($("logs"), "Logs", LOGS, rows, row => `${row.target} ${row.host}`);
  const words = picture.logs.flatMap(log => log.trouble.map(trouble => make("li", { class: "bad" }, `${log.target}: ${trouble}`)));
  const ownerless = picture.logs.filter(log => !log.hosts.some(host => host.owner));
  same($("log-trouble"), make("ul", {}, ...words, ...ownerless.map(log => make("li", { class: "bad" }, `${log.target} has no owner`))));
}

// ---- one target or client ----

function facts(pairs) {
  const told = pairs.filter(pair => pair[1] !== undefined);
  same($("d-facts"), make("dl", {}, ...told.map(([name, value]) => make("div", { "data-fact": name }, make("dt", {}, name), make("dd", {}, value)))));
}

function charts(element, history) {
  while (element.children.length < 3) element.append(make("figure"));
  const [data, requests, times] = element.children;
  chart(data, "Data", history, [{ name: "read", values: history.read }, { name: "written", values: history.written }], n => `${bytes(n)}/s`, 1024 ** 2);
  chart(requests, "Requests", history, [{ name: "per second", values: history.requests }], n => `${short(n)}/s`);
  chart(times, "Time of a request", history, [{ name: "mean", values: history.micros }, { name: "99 %", values: history.p99 }], n => n > 0 ? micros(n) : "0");
}

function showDetail() {
  const of = location.hash.slice(1), [kind, name] = [of.split("/")[0], of.slice(of.indexOf("/") + 1)];
  const row = kind === "target" ? picture.targets.find(row => row.name === name) : picture.clients.find(row => row.client === name);
  const shown = kind === "target" ? name : row ? `${row.host}:${row.at}` : name;
  const heading = make("h2", {}, shown, row ? state(row.state, row.note ?? "") : state("stopped", "no longer there"));
  same($("d-name"), heading);
  if (row && kind === "target") {
    facts([
      ["Note", row.note || undefined],
      ["Recovery", row.recovery ? progress(row.recovery) : undefined],
      ["Host", row.host || "–"], ["Home", row.place || "–"], ["Process", row.pid || "–"], ["NIDs", row.nids.join(" ") || "–"],
      ["Space free", row.space ? `${bytes(row.space.bytes_free)} of ${bytes(row.space.bytes_total)}` : undefined],
      ["Files free", row.space ? `${short(row.space.files_free)} of ${short(row.space.files_total)}` : undefined],
      ["Requests", String(row.counts.requests)], ["At work", String(row.counts.in_flight)],
      ["Read", bytes(row.counts.read_bytes)], ["Written", bytes(row.counts.written_bytes)],
      ["Sessions", String(row.sessions)],
      ["Open files", row.kind === "mdt" ? String(row.open_files) : undefined],
      ["Locks held", row.kind === "mdt" ? String(row.locks) : undefined],
      ["Waiting for locks", row.kind === "mdt" ? String(row.lock_waits) : undefined],
      ["Granted to clients", row.kind === "ost" ? bytes(row.granted_bytes) : undefined],
      ["Commits", `${short(row.commits)}, ${micros(row.commit_micros)} each`], ["Not yet durable", bytes(row.uncommitted_bytes)],
    ]);
  } else if (row) {
    facts([
      ["File system", row.fsname], ["Host", row.host], ["Mount point", row.at], ["Process", String(row.pid)], ["UUID", row.client],
      ["Requests", String(row.counts.requests)], ["In flight", String(row.counts.in_flight)],
      ["Read", bytes(row.counts.read_bytes)], ["Written", bytes(row.counts.written_bytes)],
      ["Open files", String(row.open_files)], ["Inodes cached", String(row.inodes)], ["Programs waiting", String(row.waiting)],
      ["Locks held", String(row.locks)], ["Not yet stored", bytes(row.dirty_bytes)], ["Granted by OSTs", bytes(row.granted_bytes)],
    ]);
  } else facts([["Note", "It does not report."]]);
  const here = picture.chains.filter(chain => kind === "target" ? chain.steps.some(step => step.target === name) : chain.client === name || chain.holders.some(holder => holder.client === name));
  $("d-waiting").hidden = !here.length;
  waits($("d-waits"), here);
  if (!detail || detail.of !== of) return;
  charts($("d-charts"), detail.history);
  table($("d-operations"), "Operations", [
    { name: "Operation", class: "left", show: row => row.name },
    { name: "Count", field: "count", show: row => row.count },
    { name: "Mean time", show: row => row.count ? micros(row.micros / row.count) : "–" },
  ], detail.operations, row => row.name);
  $("d-jobs-part").hidden = !detail.jobs.length;
  table($("d-jobs"), "Jobs", [
    { name: "Job", class: "left long", show: row => row.job },
    { name: "Operations", field: "operations", show: row => row.operations },
    { name: "Read", show: row => bytes(row.read_bytes) },
    { name: "Written", field: "written", show: row => bytes(row.written_bytes) },
  ], detail.jobs, row => row.job);
  table($("d-sessions"), "Sessions", [
    { name: "With", class: "left long", show: row => link(row.of, row.with) },
    { name: "State", class: "left", show: row => state(row.state) },
    { name: "Requests", show: row => row.counts.requests },
    { name: "In flight", show: row => row.window ? `${row.counts.in_flight} of ${row.window}` : row.counts.in_flight },
    { name: "Granted", field: "granted", class: "w2", show: row => row.granted_bytes ? bytes(row.granted_bytes) : "–", title: () => "space granted by the OST to the client" },
    { name: "Mean time", class: "w2", show: row => row.counts.requests ? micros(row.counts.micros / row.counts.requests) : "–" },
  ], detail.sessions, row => row.with);
}

// ---- the whole ----

function news() {
  const told = [];
  for (const row of picture.targets) {
    const before = states.get(row.name);
    if (before && before !== row.state) told.push(`${row.name} is ${row.state}`);
    states.set(row.name, row.state);
  }
  if (told.length) $("news").textContent = told.join(", ");
}

function summary() {
  const count = new Map();
  for (const row of picture.targets) count.set(row.state, (count.get(row.state) ?? 0) + 1);
  const parts = [...count].map(([word, n]) => `${n} ${word}`).join(", ");
  const clients = picture.clients.length, waits = picture.chains.length;
  const security = { secured: " · secured", open: " · open: no key is asked for", local: "" }[picture.security] ?? "";
  put($("summary"), `${picture.targets.length} targets (${parts}) · ${clients} client${clients === 1 ? "" : "s"} · ${waits ? `${waits} waiting` : "nothing waits"}${security}`);
  const wrong = picture.targets.filter(row => COLOUR[row.state] === "bad").length;
  document.title = wrong ? `(${wrong}!) SheenFS` : "SheenFS";
}

function show() {
  if (!picture) return;
  const drilled = /^#(target|client)\/./.test(location.hash);
  $("overview").hidden = drilled;
  $("detail").hidden = !drilled;
  summary();
  news();
  if (drilled) return showDetail();
  targets();
  clients();
  processes();
  recoveries();
  logs();
  waits($("waits"), picture.chains);
  $("no-waits").hidden = picture.chains.length > 0;
  if (detail?.of === "all") charts($("all"), detail.history);
}

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

async function pictures() {
  try {
    picture = await ask("/api/cluster");
    heard = performance.now();
    $("banner").hidden = true;
  } catch {
    put($("banner"), `The MGS does not answer for ${span(performance.now() - heard)}. What you see is from before.`);
    $("banner").hidden = false;
  }
  document.body.classList.toggle("stale", !$("banner").hidden);
  show();
  setTimeout(pictures, PICTURE_MS);
}

async function details() {
  const of = location.hash.slice(1).includes("/") ? location.hash.slice(1) : "all";
  try {
    const fresh = await ask(`/api/detail?of=${encodeURIComponent(of)}`);
    if ((location.hash.slice(1) || "all") === of || of === "all") detail = fresh;
  } catch {
    // The banner tells of a server that is away; a target that is gone is told in the page.
  }
  show();
}

function theme(next) {
  const order = ["auto", "light", "dark"];
  let now = localStorage.getItem("theme") ?? "auto";
  if (next) now = order[(order.indexOf(now) + 1) % order.length];
  localStorage.setItem("theme", now);
  if (now === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = now;
  $("theme").textContent = `Theme: ${now}`;
}

window.addEventListener("hashchange", () => {
  detail = null;
  for (const id of ["d-charts", "d-operations", "d-jobs", "d-sessions"]) $(id).replaceChildren();
  show();
  details();
  window.scrollTo(0, 0);
  $("main").focus({ preventScroll: true });
});
$("theme").addEventListener("click", () => theme(true));
theme(false);
pictures();
details();
setInterval(details, DETAIL_MS);
