/* The page: a list that is asked for now and then, and one session that is followed live.

   The server renders; this puts elements in their places. An element has a number that never changes, so
   what is sent twice (after a reload, a lost connection, a restart of the server) lands where it was. */
"use strict";

const $ = (id) => document.getElementById(id);
const TURNS = 20, POLL = 2000, SLOWEST_RETRY = 4000;
const LIVE = ["starting", "active", "stopping"];
const MOODS = {
  running: "good", failed: "bad", hung: "bad", unhealthy: "bad", unknown: "bad",
  paused: "care", "waiting-for-input": "care", "waiting-for-auth": "care",
};
const ODD = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

let sessions = [], listed = "", open = null, trouble = 0;

/* ---- asking the server ---- */

async function ask(path, method = "GET", body = undefined, signal = undefined) {
  const headers = {};
  const token = localStorage.getItem("agh-token");
  if (token) headers.authorization = `Bearer ${token}`;
  if (body) headers["content-type"] = "application/json";
  const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (response.ok) return response;
  let error = { message: `the server answered ${response.status}` };
  try { error = (await response.json()).error; } catch { /* not ours to explain */ }
  if (response.status === 401) askForToken();
  throw Object.assign(new Error(error.message), { status: response.status, hint: error.hint });
}

/* Server-sent events over fetch, since an EventSource cannot send the token. */
async function listen(path, signal, take) {
  const response = await ask(path, "GET", undefined, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      let event = "", data = "";
      for (const line of frame.split("\n")) {
        if (line.startsWith("event: ")) event = line.slice(7);
        if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) take(event, JSON.parse(data));
    }
  }
}

function askForToken() {
  if ($("login").open) return;
  $("token").value = "";
  $("login").showModal();
}

function setTrouble(change) {
  trouble = Math.max(0, trouble + change);
  $("banner").hidden = !trouble;
  $("banner").textContent = "The server does not answer. Trying again…";
}

const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

/* ---- the list ---- */

let polling = null, listLost = false;

async function poll() {
  clearTimeout(polling);
  try {
    const text = await (await ask(`/api/sessions${$("older").checked ? "?all=true" : ""}`)).text();
    if (listLost) { listLost = false; setTrouble(-1); }
    if (text !== listed) {
      listed = text;
      sessions = JSON.parse(text).sessions;
      showList();
    }
    revive();
  } catch (error) {
    if (!error.status && !listLost) { listLost = true; setTrouble(+1); }
  }
  clearTimeout(polling);
  if (!document.hidden) polling = setTimeout(poll, POLL);
}

function showList() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = sessions.filter((one) => {
    const text = [nameOf(one), one.title, one.id, one.agent_name, one.workspace_path, one.badge].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const rows = new Map([...$("list").querySelectorAll("a")].map((link) => [link.dataset.id, link.parentElement]));
  $("list").querySelector(".none")?.remove();
  shown.forEach((one, place) => {
    const row = rows.get(one.id) || newRow(one.id);
    rows.delete(one.id);
    fillRow(row.firstChild, one);
    if ($("list").children[place] !== row) $("list").insertBefore(row, $("list").children[place] || null);
  });
  for (const row of rows.values()) row.remove();
  if (!shown.length) {
    const text = sessions.length ? "No session matches." : "No recent sessions. Start one in a terminal: agh session new";
    $("list").append(make("li", "none", text));
  }
}

function newRow(id) {
  const row = make("li"), link = make("a");
  link.dataset.id = id;
  link.href = `#/${id}`;
  link.append(make("span", "dot"), make("bdi", "name"), make("time"), make("span", "what"), make("span", "cost"));
  row.append(link);
  return row;
}

function fillRow(link, one) {
  const [dot, name, time, what, cost] = link.children;
  dot.className = `dot ${one.badge}`;
  name.textContent = nameOf(one);
  time.textContent = age(one.updated_at);
  time.title = one.updated_at || "";
  what.replaceChildren(make("b", one.badge, one.badge.replaceAll("-", " ")));
  what.append([one.agent_name, folder(one.workspace_path)].filter(Boolean).map((text) => ` · ${plain(text)}`).join(""));
  cost.textContent = costOf(one);
  if (open?.id === one.id) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

const plain = (text) => String(text ?? "").replace(ODD, "·");
const nameOf = (one) => plain(one.name || one.title || one.error?.message || one.id);
const folder = (path) => (path || "").replace(/\/$/, "").split("/").pop();

function costOf(one) {
  const amount = one.spent?.cost_amount;
  if (amount == null) return "";
  try {
    return new Intl.NumberFormat("en", { style: "currency", currency: one.spent.cost_currency || "USD" }).format(amount);
  } catch { return `${amount.toFixed(2)} ${plain(one.spent.cost_currency)}`; }
}

function age(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  if (!(seconds >= 0)) return at ? "now" : "";
  for (const [unit, size] of [["w", 604800], ["d", 86400], ["h", 3600], ["m", 60]])
    if (seconds >= size) return `${Math.floor(seconds / size)}${unit}`;
  return "now";
}

function make(tag, kind = "", text = "") {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text) made.textContent = text;
  return made;
}

/* ---- one session ---- */

function route() {
  const id = /^#\/(sess-[0-9a-z]+)$/.exec(location.hash)?.[1];
  if (open?.id === id) return;
  open?.abort.abort();
  if (open?.lost) setTrouble(-1);
  open = null;
  document.body.classList.toggle("open", Boolean(id));
  $("session").hidden = !id;
  $("nothing").hidden = Boolean(id);
  for (const name of ["transcript", "asked", "queue"]) $(name).replaceChildren();
  for (const name of ["before", "empty", "working", "down", "problem"]) $(name).hidden = true;
  closeFind();
  if (id) {
    open = { id, abort: new AbortController(), elements: new Map(), numbers: [], state: null, from: 0, turns: TURNS, lost: false, over: null };
    showSession(sessions.find((one) => one.id === id) || { id, badge: "…" });
    $("text").value = sessionStorage.getItem(`draft ${id}`) || "";
    grow();
    watch(open);
  } else document.title = "agh";
  showList();
}

async function watch(one) {
  for (let wait = 250; open === one; wait = Math.min(wait * 2, SLOWEST_RETRY)) {
    one.over = null;
    try {
      const where = one.from ? `from=${one.from}` : `turns=${one.turns}`;
      await listen(`/api/sessions/${one.id}/view?${where}`, one.abort.signal, (event, data) => {
        if (open !== one) return;
        wait = 125;
        if (one.lost) { one.lost = false; setTrouble(-1); }
        take[event]?.(one, data);
      });
      if (one.over && open === one) await new Promise((resolve) => { one.revive = resolve; });
      if (one.over) { wait = 125; continue; }
    } catch (error) {
      if (open !== one) return;
      if (error.status === 404) return problem(error);
      if (error.status) problem(error);
    }
    if (open === one && !one.lost) { one.lost = true; setTrouble(+1); }
    await pause(wait);
  }
}

/* A stopped session is followed again as soon as someone makes it live. */
function revive() {
  if (!open?.revive) return;
  const found = sessions.find((one) => one.id === open.id);
  if (found && LIVE.includes(found.state)) {
    open.revive();
    open.revive = null;
  }
}

const take = {
  start(one, { from, earlier }) {
    one.from = from;
    $("before").hidden = !earlier;
    $("earlier").textContent = `Show earlier (${earlier} more ${earlier === 1 ? "prompt" : "prompts"})`;
  },
  session(one, state) {
    one.state = state;
    showSession(state);
    showAsked(state);
    showQueue(state);
  },
  elements(one, changes) {
    const atEnd = isAtEnd();
    for (const { number, html } of changes) put(one, number, html);
    $("empty").hidden = true;
    if (!$("find").hidden) find();
    if (atEnd || !one.shown) toEnd();
    else $("down").hidden = false;
  },
  ready(one) {
    $("empty").hidden = one.numbers.length > 0;
    if (!one.shown) toEnd();
    one.shown = true;
  },
  over(one, notice) { one.over = notice; },
  gone(one, { error }) { one.over = {}; problem(error); },
};

function put(one, number, html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const made = holder.content.firstElementChild;
  const before = one.elements.get(number);
  one.elements.set(number, made);
  made.dataset.number = number;
  if (before) {
    const opened = [...before.querySelectorAll("details")].map((each) => each.open);
    made.querySelectorAll("details").forEach((each, place) => { each.open = Boolean(opened[place]); });
    before.replaceWith(made);
    return;
  }
  let place = one.numbers.length;
  while (place && one.numbers[place - 1] > number) place -= 1;
  const next = one.numbers[place];
  one.numbers.splice(place, 0, number);
  $("transcript").insertBefore(made, next === undefined ? null : one.elements.get(next));
}

function showSession(state) {
  const live = LIVE.includes(state.state), busy = Boolean(live && state.activity?.turn_id);
  $("title").textContent = nameOf(state);
  $("badge").textContent = state.badge.replaceAll("-", " ");
  $("badge").className = `badge ${MOODS[state.badge] || ""}`;
  const turns = state.turns ? `${state.turns} ${state.turns === 1 ? "turn" : "turns"}` : "";
  const ended = !live && (state.failure?.summary || state.stop_detail || state.stop_reason);
  const facts = [state.agent_name, state.model, state.workspace_path, turns, costOf(state), ended];
  $("facts").textContent = facts.filter(Boolean).map(plain).join(" · ");
  $("facts").title = $("facts").textContent;
  $("stop").hidden = !live;
  $("resume").hidden = live || !state.state || Boolean(state.archived);
  $("cancel").hidden = $("mode").hidden = !busy;
  $("say").classList.toggle("busy", busy);
  const waits = state.permissions?.length;
  $("working").hidden = !busy || Boolean(waits);
  $("working").querySelector("span").textContent = `${plain(state.agent_name)} is working`;
  $("text").placeholder = busy ? "What comes next?" : live ? `Message ${plain(state.agent_name)}` : "Go on; this resumes the session";
  grow();
  document.title = `${waits ? "● " : ""}${nameOf(state)} · agh`;
}

function showAsked(state) {
  const known = new Map([...$("asked").children].map((card) => [card.dataset.request, card]));
  for (const one of state.permissions) {
    if (!known.has(one.request_id)) $("asked").append(newAsk(one));
    known.delete(one.request_id);
  }
  for (const card of known.values()) card.remove();
}

function newAsk(one) {
  const card = make("div", "ask"), words = make("p"), choices = make("div", "choices");
  card.dataset.request = one.request_id;
  words.append(make("b", "", `May the agent ${one.action === "other" ? "do this" : plain(one.action)}?`), ` ${plain(one.title || one.resource || "")}`);
  card.append(words);
  if (one.html) {
    const holder = document.createElement("template");
    holder.innerHTML = one.html;
    holder.content.querySelectorAll("details").forEach((each) => { each.open = true; });
    card.append(holder.content);
  }
  const offers = [["allow", false, "Allow"], ["allow", true, "Always allow"], ["deny", false, "Deny"], ["deny", true, "Always deny"]];
  for (const [decision, always, label] of offers) {
    const kind = (decision === "allow" ? "allow" : "reject") + (always ? "_always" : "_once");
    if (!one.offered.includes(kind)) continue;
    const button = make("button", choices.children.length ? "" : "first", label);
    button.type = "button";
    button.onclick = () => act(button, "approve", { request_id: one.request_id, decision, always });
    choices.append(button);
  }
  card.append(choices);
  return card;
}

function showQueue(state) {
  $("queue").replaceChildren(...state.queue.map((one) => make("li", "", `next: ${plain(one.text)}`)));
}

async function act(button, verb, body, method = "POST") {
  const id = open.id;
  button.disabled = true;
  problem(null);
  try {
    await ask(`/api/sessions/${id}${verb && `/${verb}`}`, method, body);
    poll();
    return true;
  } catch (error) {
    problem(error);
    return false;
  } finally { button.disabled = false; }
}

function problem(error) {
  $("problem").hidden = !error;
  if (error) $("problem").textContent = error.message + (error.hint ? ` (${error.hint})` : "");
}

/* ---- scrolling and finding ---- */

const isAtEnd = () => $("scroll").scrollHeight - $("scroll").scrollTop - $("scroll").clientHeight < 60;

function toEnd() {
  $("scroll").scrollTop = $("scroll").scrollHeight;
  $("down").hidden = true;
}

function find() {
  const text = $("find-text").value.trim().toLowerCase();
  const ranges = [];
  let count = 0;
  for (const element of $("transcript").children) {
    const hit = !text || element.textContent.toLowerCase().includes(text);
    element.classList.toggle("out", !hit);
    if (!text || !hit) continue;
    count += 1;
    const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const said = node.data.toLowerCase();
      for (let at = said.indexOf(text); at >= 0; at = said.indexOf(text, at + text.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, Math.min(at + text.length, node.length));
        ranges.push(range);
      }
    }
  }
  $("found").textContent = text ? (count ? `${count} of ${$("transcript").children.length}` : "no match") : "";
  if (window.Highlight) CSS.highlights.set("found", new Highlight(...ranges));
}

function closeFind() {
  $("find").hidden = true;
  $("find-text").value = "";
  find();
}

function openFind() {
  $("find").hidden = false;
  $("find-text").focus();
}

/* ---- writing ---- */

function grow() {
  $("text").style.height = "auto";
  $("text").style.height = `${$("text").scrollHeight + 2}px`;
}

async function say() {
  const text = $("text").value, id = open.id;
  if (!text.trim() || $("send").disabled) return;
  const mode = $("mode").hidden ? "queue" : $("mode").value;
  toEnd();
  if (await act($("send"), "prompt", { prompt: text, mode, detach: true }) && open?.id === id) {
    sessionStorage.removeItem(`draft ${id}`);
    $("text").value = "";
    $("mode").value = "queue";
    grow();
  }
}

/* ---- keys and clicks ---- */

function step(by) {
  const links = [...$("list").querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const from = at >= 0 ? at : links.findIndex((link) => link.hasAttribute("aria-current"));
  links[Math.min(Math.max(from + by, 0), links.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const field = event.target.closest?.("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape") {
    if (field?.id === "find-text") closeFind();
    if (field?.id === "search" && field.value) { field.value = ""; showList(); }
    else if (field) field.blur();
    else if (open && matchMedia("(max-width: 48rem)").matches) location.hash = "#/";
    else if (!$("find").hidden) closeFind();
    else return;
    return event.preventDefault();
  }
  if (field?.id === "search" && (event.key === "ArrowDown" || event.key === "Enter")) {
    event.preventDefault();
    return event.key === "Enter" ? $("list").querySelector("a")?.click() : step(+1);
  }
  if (field) return;
  const keys = {
    "/": () => { if (matchMedia("(max-width: 48rem)").matches) location.hash = "#/"; $("search").select(); $("search").focus(); },
    "?": () => $("keys").showModal(),
    j: () => step(+1), k: () => step(-1),
    f: () => open && openFind(),
    p: () => open && $("text").focus(),
    a: () => $("asked").querySelector("button")?.focus(),
  };
  const inList = event.target.closest?.("#list");
  if (inList && event.key === "ArrowDown") keys.j();
  else if (inList && event.key === "ArrowUp") keys.k();
  else if (keys[event.key]) keys[event.key]();
  else return;
  event.preventDefault();
});

$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
  event.preventDefault();
  say();
});
$("text").addEventListener("input", () => {
  grow();
  if (open) sessionStorage.setItem(`draft ${open.id}`, $("text").value);
});
$("say").addEventListener("submit", (event) => { event.preventDefault(); say(); });
$("search").addEventListener("input", showList);
$("older").addEventListener("change", poll);
$("help").onclick = () => $("keys").showModal();
$("find-open").onclick = () => ($("find").hidden ? openFind() : closeFind());
$("find-close").onclick = closeFind;
$("find-text").addEventListener("input", find);
$("down").onclick = toEnd;
$("scroll").addEventListener("scroll", () => { if (isAtEnd()) $("down").hidden = true; }, { passive: true });
$("cancel").onclick = () => act($("cancel"), "interrupt", {});
$("stop").onclick = () => act($("stop"), "", undefined, "DELETE");
$("resume").onclick = () => act($("resume"), "resume", { attach: false });
$("earlier").onclick = () => {
  const one = { ...open, abort: new AbortController(), turns: open.turns * 5, from: 0, revive: null, lost: false };
  const height = $("scroll").scrollHeight - $("scroll").scrollTop;
  open.abort.abort();
  if (open.lost) setTrouble(-1);
  open = one;
  const keep = new ResizeObserver(() => { $("scroll").scrollTop = $("scroll").scrollHeight - height; });
  keep.observe($("transcript"));
  setTimeout(() => keep.disconnect(), 1500);
  watch(one);
};
$("transcript").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (link?.getAttribute("href")?.startsWith("#")) event.preventDefault();
  else if (link) { link.target = "_blank"; link.rel = "noopener noreferrer"; }
});
$("login").addEventListener("close", () => {
  localStorage.setItem("agh-token", $("token").value.trim());
  start();
});
window.addEventListener("hashchange", () => { if (!takeToken()) route(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });

/* The token comes once, in the fragment, which no server sees; then it is kept for this address. */
function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return false;
  localStorage.setItem("agh-token", decodeURIComponent(found[1]));
  history.replaceState(null, "", "#/");
  start();
  return true;
}

function start() {
  const id = open?.id;
  if (id) { open.abort.abort(); open = null; }
  poll();
  route();
}

if (!takeToken()) start();
setInterval(() => { if (!document.hidden) showList(); }, 15000);
