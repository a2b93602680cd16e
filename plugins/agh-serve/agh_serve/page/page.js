/* The page: a list of sessions that is polled, and one session that is followed live.

   The server renders the transcript; this file inserts its elements in order. An element's number never
   changes, so one that is sent again (after a reload, a lost connection, a restart of the server) replaces
   itself. */
"use strict";

const $ = (id) => document.getElementById(id);
const TURNS = 20, POLL = 2000, SLOWEST_RETRY = 4000, TYPING = 150;
const ROWS = 100, LARGEST_PAGE = 500;
const LIVE = ["starting", "active", "stopping"];
const MOODS = {
  running: "good", failed: "bad", hung: "bad", unhealthy: "bad", unknown: "bad",
  paused: "care", limited: "care", "waiting-for-input": "care", "waiting-for-auth": "care",
};
const ODD = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

let sessions = [], listed = "", open = null, trouble = 0;

/* ---- requests to the server ---- */

async function ask(path, method = "GET", body = undefined, signal = undefined) {
  const headers = {};
  const token = localStorage.getItem("agh-token");
  if (token) headers.authorization = `Bearer ${token}`;
  if (body) headers["content-type"] = "application/json";
  const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (response.ok) return response;
  let error = { message: `the server returned status ${response.status}` };
  try { error = (await response.json()).error; } catch { /* the body is not an error of agh */ }
  if (response.status === 401) askForToken();
  throw Object.assign(new Error(error.message), { status: response.status, hint: error.hint });
}

/* Read server-sent events with fetch, because an EventSource cannot send the token. */
async function listen(path, signal, onEvent) {
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
      if (data) onEvent(event, JSON.parse(data));
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
  $("banner").textContent = "Cannot reach the server. Trying again…";
}

const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

/* ---- the list ---- */

let polling = null, polls = 0, listLost = false, rowCount = ROWS;

async function poll() {
  clearTimeout(polling);
  const number = polls += 1;
  try {
    const [text, rows, hasMore] = await fetchRows();
    if (number !== polls) return;  // something else was searched for meanwhile
    if (listLost) { listLost = false; setTrouble(-1); }
    if (text !== listed) {
      listed = text;
      sessions = rows;
      $("more").hidden = !hasMore;
      showList();
    }
    await revive();
  } catch (error) {
    if (!error.status && !listLost) { listLost = true; setTrouble(+1); }
  }
  if (number !== polls) return;
  clearTimeout(polling);
  if (!document.hidden) polling = setTimeout(poll, POLL);
}

/* Fetch as many sessions as are shown, newest first: page after page, those that match the search. */
async function fetchRows() {
  const rows = new Map(), texts = [];
  let cursor = null;
  do {
    const query = new URLSearchParams({ limit: Math.min(rowCount - rows.size, LARGEST_PAGE) });
    if ($("older").checked) query.set("all", "true");
    if ($("search").value.trim()) query.set("search", $("search").value.trim());
    if (cursor) query.set("cursor", cursor);
    const text = await (await ask(`/api/sessions?${query}`)).text(), page = JSON.parse(text);
    for (const session of page.sessions) rows.set(session.id, session);
    texts.push(text);
    cursor = page.next;
  } while (cursor && rows.size < rowCount);
  return [texts.join(""), [...rows.values()], Boolean(cursor)];
}

function search() {
  rowCount = ROWS;
  showList();
  clearTimeout(polling);
  polling = setTimeout(poll, TYPING);
}

function showList() {
  const terms = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = sessions.filter((session) => {
    const text = [nameOf(session), session.title, session.id, session.agent_name, session.workspace_path, session.badge].join(" ").toLowerCase();
    return terms.every((term) => text.includes(term));
  });
  const rows = new Map([...$("list").querySelectorAll("a")].map((link) => [link.dataset.id, link.parentElement]));
  $("list").querySelector(".none")?.remove();
  matches.forEach((session, index) => {
    const row = rows.get(session.id) || newRow(session.id);
    rows.delete(session.id);
    fillRow(row.firstChild, session);
    if ($("list").children[index] !== row) $("list").insertBefore(row, $("list").children[index] || null);
  });
  for (const row of rows.values()) row.remove();
  if (!matches.length) {
    const text = terms.length ? "No session matches." : "No recent sessions. Start one in a terminal: agh session new";
    $("list").append(createElement("li", "none", text));
  }
}

function newRow(id) {
  const row = createElement("li"), link = createElement("a");
  link.dataset.id = id;
  link.href = `#/${id}`;
  link.append(createElement("span", "dot"), createElement("bdi", "name"), createElement("time"), createElement("span", "what"), createElement("span", "cost"));
  row.append(link);
  return row;
}

function fillRow(link, session) {
  const [dot, name, time, what, cost] = link.children;
  dot.className = `dot ${session.badge}`;
  name.textContent = nameOf(session);
  time.textContent = age(session.updated_at);
  time.title = session.updated_at || "";
  what.replaceChildren(createElement("b", session.badge, session.badge.replaceAll("-", " ")));
  what.append([session.agent_name, folder(session.workspace_path)].filter(Boolean).map((text) => ` · ${plain(text)}`).join(""));
  cost.textContent = costOf(session);
  if (open?.id === session.id) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

const plain = (text) => String(text ?? "").replace(ODD, "·");
const nameOf = (session) => plain(session.name || session.title || session.error?.message || session.id);
const folder = (path) => (path || "").replace(/\/$/, "").split("/").pop();

function costOf(session) {
  const amount = session.spent?.cost_amount;
  if (amount == null) return "";
  try {
    return new Intl.NumberFormat("en", { style: "currency", currency: session.spent.cost_currency || "USD" }).format(amount);
  } catch { return `${amount.toFixed(2)} ${plain(session.spent.cost_currency)}`; }
}

function age(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  if (!(seconds >= 0)) return at ? "now" : "";
  for (const [unit, size] of [["w", 604800], ["d", 86400], ["h", 3600], ["m", 60]])
    if (seconds >= size) return `${Math.floor(seconds / size)}${unit}`;
  return "now";
}

function createElement(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
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
    showSession(sessions.find((session) => session.id === id) || { id, badge: "…" });
    $("text").value = sessionStorage.getItem(`draft ${id}`) || "";
    resizeInput();
    watch(open);
  } else document.title = "agh";
  showList();
}

async function watch(view) {
  for (let wait = 250; open === view; wait = Math.min(wait * 2, SLOWEST_RETRY)) {
    view.over = null;
    try {
      const query = view.from ? `from=${view.from}` : `turns=${view.turns}`;
      await listen(`/api/sessions/${view.id}/view?${query}`, view.abort.signal, (event, data) => {
        if (open !== view) return;
        wait = 125;
        if (view.lost) { view.lost = false; setTrouble(-1); }
        handlers[event]?.(view, data);
      });
      if (view.over && open === view) await new Promise((resolve) => { view.revive = resolve; });
      if (view.over) { wait = 125; continue; }
    } catch (error) {
      if (open !== view) return;
      if (error.status === 404) return showProblem(error);
      if (error.status) showProblem(error);
    }
    if (open === view && !view.lost) { view.lost = true; setTrouble(+1); }
    await pause(wait);
  }
}

/* Follow a stopped session again as soon as it is live, whether it is in the list or not. */
async function revive() {
  const view = open;
  if (!view?.revive) return;
  let session = sessions.find(({ id }) => id === view.id);
  if (!session) session = (await (await ask(`/api/sessions/${view.id}`)).json()).session;
  if (view.revive && LIVE.includes(session.state)) {
    view.revive();
    view.revive = null;
  }
}

const handlers = {
  start(view, { from, earlier }) {
    view.from = from;
    $("before").hidden = !earlier;
    $("earlier").textContent = `Show earlier (${earlier} more ${earlier === 1 ? "prompt" : "prompts"})`;
  },
  session(view, state) {
    view.state = state;
    showSession(state);
    showRequests(state);
    showQueue(state);
  },
  elements(view, changes) {
    const atEnd = isAtEnd();
    for (const { number, html } of changes) put(view, number, html);
    $("empty").hidden = true;
    if (!$("find").hidden) find();
    if (atEnd || !view.shown) scrollToEnd();
    else $("down").hidden = false;
  },
  ready(view) {
    $("empty").hidden = view.numbers.length > 0;
    if (!view.shown) scrollToEnd();
    view.shown = true;
  },
  over(view, notice) { view.over = notice; },
  gone(view, { error }) { view.over = {}; showProblem(error); },
};

/* The server writes times in UTC; show the reader's own. */
function showLocal(time) {
  const moment = new Date(time.dateTime);
  if (!isNaN(moment)) time.textContent = moment.toLocaleTimeString("en-GB");
}

function put(view, number, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const element = template.content.firstElementChild;
  element.querySelectorAll("time[datetime]").forEach(showLocal);
  const previous = view.elements.get(number);
  view.elements.set(number, element);
  element.dataset.number = number;
  if (previous) {
    const wasOpen = [...previous.querySelectorAll("details")].map((details) => details.open);
    element.querySelectorAll("details").forEach((details, index) => { details.open = Boolean(wasOpen[index]); });
    previous.replaceWith(element);
    return;
  }
  let index = view.numbers.length;
  while (index && view.numbers[index - 1] > number) index -= 1;
  const next = view.numbers[index];
  view.numbers.splice(index, 0, number);
  $("transcript").insertBefore(element, next === undefined ? null : view.elements.get(next));
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
  const pending = (state.permissions?.length || 0) + (state.questions?.length || 0);
  $("working").hidden = !busy || Boolean(pending);
  $("working").querySelector("span").textContent = `${plain(state.agent_name)} is working`;
  $("text").placeholder = busy ? "Your next prompt" : live ? `Message ${plain(state.agent_name)}` : "Send a prompt to resume the session";
  resizeInput();
  document.title = `${pending ? "● " : ""}${nameOf(state)} · agh`;
}

function showRequests(state) {
  const cards = new Map([...$("asked").children].map((card) => [card.dataset.request, card]));
  for (const [requests, newCard] of [[state.permissions, newRequestCard], [state.questions, newQuestionCard]]) {
    for (const request of requests) {
      if (!cards.has(request.request_id)) $("asked").append(newCard(request));
      cards.delete(request.request_id);
    }
  }
  for (const card of cards.values()) card.remove();
}

function newRequestCard(request) {
  const card = createElement("div", "ask"), question = createElement("p"), choices = createElement("div", "choices");
  card.dataset.request = request.request_id;
  question.append(createElement("b", "", "May the agent do this?"), ` ${plain(request.about)}`);
  card.append(question);
  if (request.diff) {
    const diff = createElement("pre", "diff");
    for (const line of request.diff.split("\n")) {
      diff.append(createElement({ "+": "ins", "-": "del" }[line[0]] || "span", "", `${plain(line)}\n`));
    }
    card.append(diff);
  }
  if (request.title) card.append(createElement("p", "title", `The agent describes it as: ${plain(request.title)}`));
  const offers = [["allow", false, "Allow"], ["allow", true, "Always allow"], ["deny", false, "Deny"], ["deny", true, "Always deny"]];
  for (const [decision, always, label] of offers) {
    const verdict = decision + (always ? "_always" : "");
    if (verdict !== "deny" && !request.offered.includes(verdict)) continue;
    const button = createElement("button", choices.children.length ? "" : "first", label);
    button.type = "button";
    button.onclick = () => sendAction(button, "approve", { request_id: request.request_id, digest: request.digest, decision, always });
    choices.append(button);
  }
  card.append(choices);
  return card;
}

/* A question of the agent: a form, or a link that is opened only by the button that says so. */
function newQuestionCard(question) {
  const card = createElement("form", "ask"), words = createElement("p"), choices = createElement("div", "choices");
  card.dataset.request = question.request_id;
  const lead = question.status === "orphaned" ? "Before it was interrupted, the agent asked:" : "The agent asks:";
  words.append(createElement("b", "", lead), ` ${plain(question.message)}`);
  card.append(words);
  if (question.url) card.append(createElement("p", "title", plain(question.url)));
  const inputs = new Map();
  for (const field of question.fields) {
    const label = createElement("label", "field", plain(field.title || field.name) + (field.required ? " *" : ""));
    const input = newFieldInput(field);
    inputs.set(field.name, [field, input]);
    label.append(input);
    if (field.description) label.append(createElement("small", "", plain(field.description)));
    card.append(label);
  }
  const send = (button, decision, content) => sendAction(button, "answer", { request_id: question.request_id, decision, content });
  const accept = createElement("button", "first", question.url ? "Open the link" : "Answer");
  card.onsubmit = async (event) => {
    event.preventDefault();
    const page = question.url && /^https?:/.test(question.url) ? question.url : "";
    const content = {};
    for (const [name, [field, input]] of inputs) {
      const value = readField(field, input);
      if (value !== "") content[name] = value;
    }
    if (page) window.open(page, "_blank", "noopener,noreferrer");
    await send(accept, "accepted", content);
  };
  const decline = createElement("button", "", "Decline");
  decline.type = "button";
  decline.onclick = () => send(decline, "declined");
  choices.append(accept, decline);
  card.append(choices);
  return card;
}

function newFieldInput(field) {
  const values = field.type === "boolean" ? [{ value: "yes", title: "Yes" }, { value: "no", title: "No" }] : field.choices;
  const input = createElement(values.length ? "select" : "input");
  if (values.length) {
    input.multiple = field.type === "array";
    if (!input.multiple) input.append(new Option("", ""));
    for (const { value, title } of values) input.append(new Option(plain(title), value));
  } else if (field.type === "number" || field.type === "integer") {
    input.type = "number";
    input.step = field.type === "integer" ? "1" : "any";
  }
  const preset = typeof field.default === "boolean" ? (field.default ? "yes" : "no") : field.default;
  if (input.multiple) for (const option of input.options) option.selected = (preset || []).includes(option.value);
  else if (preset != null) input.value = String(preset);
  input.required = field.required;
  return input;
}

function readField(field, input) {
  if (!input.multiple) return input.value;
  const chosen = [...input.selectedOptions].map((option) => option.value);
  return chosen.length || field.required ? chosen : "";
}

function showQueue(state) {
  $("queue").replaceChildren(...state.queue.map((input) => createElement("li", "", `next: ${plain(input.text)}`)));
}

async function sendAction(button, verb, body, method = "POST") {
  const id = open.id;
  button.disabled = true;
  showProblem(null);
  try {
    await ask(`/api/sessions/${id}${verb && `/${verb}`}`, method, body);
    poll();
    return true;
  } catch (error) {
    showProblem(error);
    return false;
  } finally { button.disabled = false; }
}

function showProblem(error) {
  $("problem").hidden = !error;
  if (error) $("problem").textContent = error.message + (error.hint ? ` (${error.hint})` : "");
}

/* ---- scrolling and finding ---- */

const isAtEnd = () => $("scroll").scrollHeight - $("scroll").scrollTop - $("scroll").clientHeight < 60;

function scrollToEnd() {
  $("scroll").scrollTop = $("scroll").scrollHeight;
  $("down").hidden = true;
}

function find() {
  const text = $("find-text").value.trim().toLowerCase();
  const ranges = [];
  let count = 0;
  for (const element of $("transcript").children) {
    const isMatch = !text || element.textContent.toLowerCase().includes(text);
    element.classList.toggle("out", !isMatch);
    if (!text || !isMatch) continue;
    count += 1;
    const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const content = node.data.toLowerCase();
      for (let at = content.indexOf(text); at >= 0; at = content.indexOf(text, at + text.length)) {
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

/* ---- prompts ---- */

function resizeInput() {
  $("text").style.height = "auto";
  $("text").style.height = `${$("text").scrollHeight + 2}px`;
}

async function sendPrompt() {
  const text = $("text").value, id = open.id;
  if (!text.trim() || $("send").disabled) return;
  const mode = $("mode").hidden ? "queue" : $("mode").value;
  scrollToEnd();
  if (await sendAction($("send"), "prompt", { prompt: text, mode, detach: true }) && open?.id === id) {
    sessionStorage.removeItem(`draft ${id}`);
    $("text").value = "";
    $("mode").value = "queue";
    resizeInput();
  }
}

/* ---- keys and clicks ---- */

function moveFocus(by) {
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
    if (field?.id === "search" && field.value) { field.value = ""; search(); }
    else if (field) field.blur();
    else if (open && matchMedia("(max-width: 48rem)").matches) location.hash = "#/";
    else if (!$("find").hidden) closeFind();
    else return;
    return event.preventDefault();
  }
  if (field?.id === "search" && (event.key === "ArrowDown" || event.key === "Enter")) {
    event.preventDefault();
    return event.key === "Enter" ? $("list").querySelector("a")?.click() : moveFocus(+1);
  }
  if (field) return;
  const keys = {
    "/": () => { if (matchMedia("(max-width: 48rem)").matches) location.hash = "#/"; $("search").select(); $("search").focus(); },
    "?": () => $("keys").showModal(),
    j: () => moveFocus(+1), k: () => moveFocus(-1),
    f: () => open && openFind(),
    p: () => open && $("text").focus(),
    a: () => $("asked").querySelector("input, select, button")?.focus(),
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
  sendPrompt();
});
$("text").addEventListener("input", () => {
  resizeInput();
  if (open) sessionStorage.setItem(`draft ${open.id}`, $("text").value);
});
$("say").addEventListener("submit", (event) => { event.preventDefault(); sendPrompt(); });
$("search").addEventListener("input", search);
$("older").addEventListener("change", () => { rowCount = ROWS; poll(); });
$("more").onclick = () => { rowCount += ROWS; poll(); };
$("help").onclick = () => $("keys").showModal();
$("find-open").onclick = () => ($("find").hidden ? openFind() : closeFind());
$("find-close").onclick = closeFind;
$("find-text").addEventListener("input", find);
$("down").onclick = scrollToEnd;
$("scroll").addEventListener("scroll", () => { if (isAtEnd()) $("down").hidden = true; }, { passive: true });
$("cancel").onclick = () => sendAction($("cancel"), "interrupt", {});
$("stop").onclick = () => sendAction($("stop"), "", undefined, "DELETE");
$("resume").onclick = () => sendAction($("resume"), "resume", { attach: false });
$("earlier").onclick = () => {
  const view = { ...open, abort: new AbortController(), turns: open.turns * 5, from: 0, revive: null, lost: false };
  const height = $("scroll").scrollHeight - $("scroll").scrollTop;
  open.abort.abort();
  if (open.lost) setTrouble(-1);
  open = view;
  const observer = new ResizeObserver(() => { $("scroll").scrollTop = $("scroll").scrollHeight - height; });
  observer.observe($("transcript"));
  setTimeout(() => observer.disconnect(), 1500);
  watch(view);
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

/* Take the token from the link's fragment, which browsers never send, and store it for this address. */
function takeToken() {
  const match = /^#token=(.+)$/.exec(location.hash);
  if (!match) return false;
  localStorage.setItem("agh-token", decodeURIComponent(match[1]));
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
