"use strict";

// The states, sorted by urgency.
const STATES = ["failed", "unreadable", "retrying", "blocked", "deleting", "changed", "handling", "not seen", "settled"];
const RANK = new Map(STATES.map((name, index) => [name, index]));
const HEIGHT = 28; // pixels of a row, as in style.css
const token = new URLSearchParams(location.search).get("token") ?? "";

const rows = new Map(); // by uid
let shown = [];         // the matching rows, sorted
let cursor = null;      // the uid of the selected row
let opened = null;      // the uid of the row in the detail view
let story = null;       // the explanation of the opened object
let loading = 0;        // the number of the last request for an explanation
const chosen = new Set(); // the chosen states; none means all

const $ = (id) => document.getElementById(id);

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function request(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { "x-kopf-token": token, ...options.headers } });
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

// --- Times ---

function brief(seconds) {
  const rounded = Math.max(0, Math.ceil(seconds));
  if (rounded < 100) return `${rounded} s`;
  if (rounded < 6000) return `${Math.floor(rounded / 60)} min`;
  if (rounded < 172800) return `${Math.floor(rounded / 3600)} h`;
  return `${Math.floor(rounded / 86400)} d`;
}

function ago(text) {
  return `${brief((Date.now() - Date.parse(text)) / 1000)} ago`;
}

function details(state) {
  const message = state.message ? `: ${state.message}` : "";
  switch (state.name) {
    case "changed": return `${state.fields} field${state.fields === 1 ? "" : "s"}`;
    case "handling": return state.known ? `${state.finished} of ${state.known} handlers finished` : "";
    case "retrying": {
      const left = (Date.parse(state.at) - Date.now()) / 1000;
      const when = left > 0 ? `in ${brief(left)}` : `due ${brief(-left)} ago`;
      return `${when}: ${state.handler} (attempt ${state.attempt})${message}`;
    }
    case "failed": return state.handler ? `${state.handler}${message}` : state.message ?? "";
    case "blocked": return `by ${state.finalizers.join(", ")}`;
    case "unreadable": return state.problem;
    default: return "";
  }
}

// --- The list ---

let scheduled = false;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => { scheduled = false; arrange(); }, 100);
}

function searchable(row) {
  row.text ??= [row.kind, row.namespace ?? "", row.name, row.state.name, row.state.handler ?? "", row.state.message ?? ""]
    .join(" ").toLowerCase();
  return row.text;
}

function arrange() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = [];
  const counts = new Map();
  for (const row of rows.values()) {
    if (!words.every((word) => searchable(row).includes(word))) continue;
    counts.set(row.state.name, (counts.get(row.state.name) ?? 0) + 1);
    if (chosen.size === 0 || chosen.has(row.state.name)) matching.push(row);
  }
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  matching.sort((a, b) => RANK.get(a.state.name) - RANK.get(b.state.name) || order(a.kind, b.kind)
    || order(a.namespace ?? "", b.namespace ?? "") || order(a.name, b.name));
  shown = matching;
  $("spacer").style.height = `${shown.length * HEIGHT}px`;
  $("empty").hidden = shown.length > 0;
  showStates(counts);
  showErrors();
  draw();
}

function draw() {
  const list = $("list");
  const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 5);
  const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / HEIGHT) + 10);
  const made = shown.slice(first, last).map((row, index) => {
    const line = element("div", undefined, "row");
    line.id = `row-${row.uid}`;
    line.dataset.uid = row.uid;
    line.setAttribute("role", "option");
    line.setAttribute("aria-selected", String(row.uid === cursor));
    line.setAttribute("aria-setsize", String(shown.length));
    line.setAttribute("aria-posinset", String(first + index + 1));
    line.append(
      element("span", row.state.name, row.state.name.replace(" ", "-")),
      element("span", row.kind), element("span", row.namespace ?? ""), element("span", row.name),
      element("span", details(row.state)),
    );
    return line;
  });
  const view = $("window");
  view.style.top = `${first * HEIGHT}px`;
  view.replaceChildren(...made);
  if (cursor) list.setAttribute("aria-activedescendant", `row-${cursor}`);
}

function showStates(counts) {
  const buttons = STATES.filter((name) => counts.has(name) || chosen.has(name)).map((name) => {
    const button = element("button", `${name} ${counts.get(name) ?? 0}`, name.replace(" ", "-"));
    button.setAttribute("aria-pressed", String(chosen.has(name)));
    button.dataset.state = name;
    return button;
  });
  const focused = document.activeElement?.dataset?.state;
  $("states").replaceChildren(...buttons);
  if (focused) buttons.find((button) => button.dataset.state === focused)?.focus();
}

function showErrors() {
  const handlers = new Map();
  for (const row of rows.values()) {
    if (row.state.name !== "failed" && row.state.name !== "retrying") continue;
    const key = `${row.kind}: ${row.state.handler ?? "unknown handler"}`;
    const entry = handlers.get(key) ?? { failed: 0, retrying: 0, message: "" };
    entry[row.state.name] += 1;
    entry.message = row.state.message ?? entry.message;
    handlers.set(key, entry);
  }
  $("errors").firstElementChild.textContent = `Errors by handler (${handlers.size})`;
  const sorted = [...handlers].sort(([, a], [, b]) => b.failed + b.retrying - a.failed - a.retrying).slice(0, 100);
  $("handlers").replaceChildren(table(sorted.map(([key, { failed, retrying, message }]) =>
    [key, `${failed} failed`, `${retrying} retrying`, message])));
}

function table(lines) {
  const made = element("table");
  for (const line of lines) {
    const row = element("tr");
    line.forEach((cell) => row.append(element("td", cell)));
    made.append(row);
  }
  return made;
}

// --- One object ---

async function open(uid) {
  const row = rows.get(uid);
  if (!row) return;
  opened = uid;
  const number = ++loading;
  const query = new URLSearchParams({ kind: row.kind, namespace: row.namespace ?? "", name: row.name });
  let found, problem;
  try { found = await request(`api/object?${query}`); } catch (error) { problem = error.message; }
  if (number !== loading) return; // another object was opened in the meantime
  story = found ?? null;
  showStory(row, problem);
}

function close() {
  opened = story = null;
  loading += 1;
  $("detail").hidden = true;
  draw();
}

function section(title, content) {
  return [element("h3", title), content];
}

function showStory(row, problem) {
  const detail = $("detail");
  const top = detail.hidden ? 0 : detail.scrollTop;
  const actions = element("div", undefined, "actions");
  const retriggering = element("button", "Retrigger…");
  retriggering.id = "retrigger";
  retriggering.addEventListener("click", () => confirmRetrigger(row));
  const closing = element("button", "Close");
  closing.addEventListener("click", close);
  actions.append(retriggering, closing);
  const parts = [actions, element("h2", story?.title ?? row.name)];
  if (problem) parts.push(element("p", problem, "failed"));
  if (story) {
    const state = element("p");
    state.append(element("span", story.state.name, story.state.name.replace(" ", "-")), ` ${story.details}`);
    parts.push(state, element("p", story.advice, "advice"));
    parts.push(...storyParts());
  }
  detail.replaceChildren(...parts);
  detail.hidden = false;
  showStarts();
  detail.scrollTop = top;
}

function storyParts() {
  const parts = [];
  if (story.diff.length) {
    const lines = element("pre");
    story.diff.forEach(({ sign, line }) => lines.append(element("span", line, sign)));
    parts.push(...section("Changes since the last handling", lines));
  } else {
    const text = story.handledOnce ? "No changes since the last handling." : "No handling has completed yet.";
    parts.push(...section("Configuration", element("p", text, "hint")));
  }
  if (story.handlers.length) {
    const made = table(story.handlers.map((one) =>
      [`${one.parent ? "  " : ""}${one.id}`, one.progress, ""]));
    story.handlers.forEach((one, index) => {
      const isRunning = one.started && !one.success && !one.failure;
      if (isRunning) made.rows[index].cells[2].dataset.started = one.started;
    });
    parts.push(...section("Handlers", made));
  }
  if (story.requested) parts.push(...section("Requested", element("p", story.requested.join(", "))));
  if (story.finalizers.length) {
    parts.push(...section("Finalizers", table(story.finalizers.map((one) =>
      [one.name, one.own ? "the operator" : "another controller"]))));
  }
  if (story.unknown.length) parts.push(...section("Unknown annotations", element("p", story.unknown.join(", "))));
  const events = (story.events ?? []).map((one) =>
    [one.at, `${one.type}: ${one.message}${one.count > 1 ? ` (×${one.count})` : ""}`]);
  const states = story.history.map((one, index) => [one.at, `→ ${one.state} ${one.details}`.trimEnd() + lasted(index)]);
  const timeline = [...events, ...states].sort(([a], [b]) => Date.parse(b) - Date.parse(a));
  if (timeline.length) {
    const made = table(timeline.map(([at, text]) => [ago(at), text]));
    made.querySelectorAll("td:first-child").forEach((cell) => { cell.className = "when"; });
    parts.push(...section("Timeline", made));
  }
  return parts;
}

// The duration of the state before a transition. That of the first one is known only if the object was created
// while it was watched.
function lasted(index) {
  const [before, after] = [story.history[index - 1], story.history[index]];
  if (!before) return "";
  const isKnown = index > 1 || Date.parse(before.at) - Date.parse(story.created) < 2000;
  const seconds = (Date.parse(after.at) - Date.parse(before.at)) / 1000;
  return isKnown ? ` (after ${seconds < 10 ? `${seconds.toFixed(1)} s` : brief(seconds)} of ${before.state})` : "";
}

// Updates the time since the start of unfinished handlers.
function showStarts() {
  $("detail").querySelectorAll("[data-started]").forEach((cell) => {
    cell.textContent = `started ${ago(cell.dataset.started)}`;
  });
}

function confirmRetrigger(row) {
  const handler = $("handler");
  const ids = (story?.handlers ?? []).filter((one) => !one.parent).map((one) => one.id);
  $("known").replaceChildren(...ids.map((id) => element("option", id)));
  handler.value = "";
  $("question").textContent = `Retrigger ${row.kind} ${row.namespace ? `${row.namespace}/` : ""}${row.name}?`;
  const explain = () => {
    $("effect").textContent = handler.value
      ? "The operator calls this handler again. The original Kopf ignores such requests."
      : "The state of the operator is removed from the object, and the object is handled as a new one.";
  };
  handler.oninput = explain;
  explain();
  const dialog = $("confirm");
  dialog.returnValue = "no";
  dialog.onclose = () => { if (dialog.returnValue === "yes") retrigger(row, handler.value); };
  dialog.showModal();
  $("yes").focus();
}

async function retrigger(row, handler) {
  const content = { kind: row.kind, namespace: row.namespace ?? "", name: row.name, handler };
  try {
    const done = await request("api/retrigger", {
      method: "POST", body: JSON.stringify(content), headers: { "content-type": "application/json" },
    });
    say(`${row.name}: ${done.result}`);
  } catch (error) {
    say(error.message);
  }
  open(row.uid);
}

function say(text) { $("problems").textContent = text; }

// --- Keys and clicks ---

function move(step) {
  if (shown.length === 0) return;
  const index = shown.findIndex((row) => row.uid === cursor);
  // Without a selected row, the index is -1, and a step down selects the first row.
  const next = Math.min(shown.length - 1, Math.max(0, index + step));
  cursor = shown[next].uid;
  const list = $("list");
  const top = next * HEIGHT;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + HEIGHT - list.clientHeight;
  draw();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("confirm").open) return;
  const isTyping = event.target === $("search");
  if (event.key === "Escape") {
    if (isTyping) $("list").focus(); else close();
  } else if (isTyping) {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    $("list").focus();
    move(0);
  } else if (event.target.closest("button, summary, input")) {
    return;
  } else if (event.key === "/") {
    $("search").focus();
    $("search").select();
  } else if (event.key === "ArrowDown" || event.key === "j") move(1);
  else if (event.key === "ArrowUp" || event.key === "k") move(-1);
  else if (event.key === "PageDown") move(20);
  else if (event.key === "PageUp") move(-20);
  else if (event.key === "Home") move(-shown.length);
  else if (event.key === "End") move(shown.length);
  else if (event.key === "Enter" && shown.length > 0) {
    move(0); // the selected row may be filtered out
    open(cursor);
  }
  else if (event.key === "r" && opened && rows.has(opened)) confirmRetrigger(rows.get(opened));
  else return;
  event.preventDefault();
});

$("list").addEventListener("scroll", () => requestAnimationFrame(draw));
$("list").addEventListener("click", (event) => {
  const line = event.target.closest(".row");
  if (!line) return;
  cursor = line.dataset.uid;
  draw();
  open(cursor);
});
$("search").addEventListener("input", schedule);
$("states").addEventListener("click", (event) => {
  const name = event.target.dataset.state;
  if (!name) return;
  if (!chosen.delete(name)) chosen.add(name);
  arrange();
});
addEventListener("resize", draw);

// --- Data ---

function put(change) {
  if (typeof change === "string") {
    rows.delete(change);
  } else {
    rows.set(change.uid, change);
  }
  const uid = typeof change === "string" ? change : change.uid;
  if (uid === opened) {
    if (rows.has(uid)) open(uid); else say("The opened object is deleted.");
  }
}

function connect() {
  const source = new EventSource(`api/stream?token=${encodeURIComponent(token)}`);
  const state = $("connection");
  source.addEventListener("open", () => { state.textContent = "live"; state.className = "live"; });
  source.addEventListener("error", () => { state.textContent = "reconnecting"; state.className = ""; });
  source.addEventListener("reset", () => rows.clear());
  for (const name of ["rows", "changes"]) {
    source.addEventListener(name, (event) => { JSON.parse(event.data).forEach(put); schedule(); });
  }
}

async function overview() {
  try {
    const found = await request("api/overview");
    const alive = found.peers.filter((peer) => peer.alive).length;
    $("operators").firstElementChild.textContent = `Operators (${alive} alive by peering)`;
    $("peers").replaceChildren(table(found.peers.length ? found.peers.map((peer) =>
      [peer.identity, peer.peering, `priority ${peer.priority}`, peer.alive ? "alive" : "dead", `seen ${ago(peer.lastseen)}`])
      : [["No operator takes part in peering."]]));
    const problems = Object.entries(found.problems).map(([kind, problem]) => `${kind}: ${problem}`);
    say(problems.join("; "));
  } catch (error) {
    say(error.message);
  }
}

connect();
overview();
setInterval(overview, 15000);
setInterval(() => { draw(); showStarts(); }, 1000); // remaining and elapsed times
