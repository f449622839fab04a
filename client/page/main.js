// Connects the page's parts: the open conversation, running answers, and storage.

import * as api from "./api.js";
import { Answer } from "./answer.js";
import { MessageBox } from "./message_box.js";
import { keepFocus } from "./focus.js";
import { Frames } from "./frames.js";
import { Uplink } from "./uplink.js";
import { AnswerView, listItem, userMessage } from "./view.js";

const byId = (id) => document.getElementById(id);
const [list, messages, text, mode, state] = ["list", "messages", "text", "mode", "state"].map(byId);
const box = new MessageBox(text);
const uplink = new Uplink(byId("leaves"), byId("preview"), byId("uplink"));

// Returns an unguessable name. crypto.randomUUID() works only over https and on localhost.
const newName = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

// The open conversation. An unfinished answer has a stream's name and no content.
let id = newName();
let turns = [];
let running = null; // AbortController

const TITLE_CHARACTERS = 60;
const RESUMES = 3; // attempts to resume an interrupted stream
const RESUMES_AFTER_MS = 500;
const MARK = /<\/?private>/i; // as the endpoint reads it: in any case, and also alone

// Does not set the same words again, because screen readers would repeat them.
function say(words) {
  if (state.textContent !== words) state.textContent = words;
}

// On failure, shows the error and `failure`, which describes the resulting state.
async function attempt(act, failure) {
  try {
    await act();
  } catch (error) {
    say(`${error.message}: ${failure}`);
  }
}

api.onKeyWanted(
  () =>
    new Promise((resolve) => {
      const dialog = byId("ask");
      // The Escape key closes it without a value.
      dialog.returnValue = "";
      dialog.addEventListener(
        "close",
        () => resolve(dialog.returnValue ? byId("key").value : null),
        { once: true },
      );
      dialog.showModal();
    }),
);

function titleOf() {
  const first = turns.find((turn) => turn.role === "user")?.content ?? "";
  const line = first.replace(new RegExp(MARK, "gi"), "").trim().split("\n")[0];
  return Array.from(line).slice(0, TITLE_CHARACTERS).join("") || "New conversation";
}

const isPrivate = () => turns.some((turn) => turn.private);

const keepTurns = () =>
  api.keepConversation(id, {
    title: titleOf(),
    private: isPrivate(),
    document: { turns, mode: mode.value },
  });

// Saves the conversation. Returns true if nothing is left to save; otherwise shows why.
async function keep() {
  try {
    const isDeleted = turns.length > 0 && !(await keepTurns());
    await showList();
    if (isDeleted) say("the conversation was deleted elsewhere: it is not saved");
    return true;
  } catch (error) {
    say(`${error.message}: the conversation was not saved`);
    return false;
  }
}

async function showList() {
  const entries = await api.listConversations();
  const items = entries.map((entry) =>
    listItem(entry, entry.id === id, {
      open: () => open(entry.id),
      remove: () => remove(entry.id),
    }),
  );
  keepFocus(() => list.replaceChildren(...items));
}

const renewList = () => attempt(showList, "the list was not updated");

const remove = (unwanted) =>
  attempt(async () => {
    const last = (unwanted === id ? turns : (await api.readConversation(unwanted))?.turns)?.at(-1);
    // Close it first; an answer that ends meanwhile would be kept.
    if (unwanted === id) begin();
    await api.removeConversation(unwanted);
    // Ends the answer.
    if (last?.stream)
      await attempt(() => api.forget(last.stream), "its answer may continue for a while");
    await renewList();
  }, "the conversation was not deleted");

function begin() {
  running?.abort();
  id = newName();
  turns = [];
  mode.value = "";
  box.leave();
  show();
  look();
  text.focus();
}

const open = (wanted) =>
  attempt(async () => {
    const conversation = await api.readConversation(wanted);
    if (conversation) takeUp(wanted, conversation);
    else say("the conversation no longer exists");
    await renewList();
  }, "the conversation was not opened");

function takeUp(wanted, conversation) {
  running?.abort();
  id = wanted;
  turns = conversation.turns;
  mode.value = conversation.mode ?? "";
  box.leave();
  closeMenu();
  show();
  look();
  const last = turns.at(-1);
  // Start before any wait, because no question is allowed until it has ended.
  if (last?.stream) void follow(api.resume, last);
}

function show() {
  byId("title").textContent = turns.length > 0 ? titleOf() : "New conversation";
  location.hash = turns.length > 0 ? id : "";
  const articles = turns.filter((turn) => !turn.stream).map(articleOf);
  keepFocus(() => messages.replaceChildren(...articles));
  showDraft();
  messages.scrollTop = messages.scrollHeight;
}

function articleOf(turn) {
  if (turn.role === "user") return userMessage(turn.content, { edit: () => edit(turn) });
  // Only the last answer: repeating an earlier one would delete everything after it.
  const view = new AnswerView(turn === turns.at(-1) ? { again } : {});
  view.show(Object.assign(new Answer(), turn.answer));
  return view.article;
}

function again() {
  if (running) return;
  turns = turns.slice(0, -1);
  show();
  void answer();
}

function edit(turn) {
  if (running) return;
  box.edit(turn);
  typeOn();
}

function cancelEdit() {
  box.cancel();
  typeOn();
}

function typeOn() {
  showDraft();
  look();
  text.focus();
}

// Marks the message that is being edited.
function showDraft() {
  byId("editing").hidden = !box.edited;
  if (box.edited) text.setAttribute("aria-describedby", "edited");
  else text.removeAttribute("aria-describedby");
  for (const [index, article] of [...messages.children].entries()) {
    if (box.edited && turns[index] === box.edited) article.setAttribute("aria-current", "true");
    else article.removeAttribute("aria-current");
  }
}

// Turns that a new message would follow.
const earlier = () => (box.edited ? turns.slice(0, turns.indexOf(box.edited)) : turns);

// Answers without text are sent, too, whether interrupted or only a thought: many templates require
// alternating user and assistant turns.
const sent = (these) =>
  these
    .filter((turn) => turn.role === "user" || turn.answer)
    .map((turn) => ({
      role: turn.role,
      content: turn.role === "user" ? turn.content : turn.answer.text,
    }));

async function answer() {
  const history = sent(turns);
  const turn = { role: "assistant", stream: newName(), private: false };
  turns.push(turn);
  const asked = mode.value;
  await follow((name, signal) => api.ask(name, history, asked, signal), turn);
}

const pause = (signal) =>
  new Promise((resolve) => {
    setTimeout(resolve, RESUMES_AFTER_MS);
    signal.addEventListener("abort", resolve);
  });

// Reads a stream to its end and shows it. An answer continues if its reader falls behind or loses
// the connection. It is then read again from its start. `goesOn`: it may still be running,
// unreachable.
async function read(source, name, signal, shown) {
  let answer = new Answer();
  for (let resumes = 0; ; ++resumes) {
    try {
      const coming = new Answer();
      for await (const event of (resumes > 0 ? api.resume : source)(name, signal)) {
        coming.take(event);
        answer = coming;
        shown(answer);
      }
      if (!answer.finished) throw new Error("the answer was interrupted");
      return { answer, goesOn: false };
    } catch (error) {
      const isOver = answer.finished || signal.aborted || error instanceof api.EndpointError;
      if (isOver || resumes === RESUMES) {
        if (!answer.finished) answer.broken = signal.aborted ? "stopped" : error.message;
        return { answer, goesOn: !isOver };
      }
    }
    await pause(signal);
  }
}

function showRunning(isRunning) {
  keepFocus(() => {
    byId("stop").hidden = !isRunning;
    byId("send").disabled = isRunning;
  });
}

// Shows a stream as it arrives, and stores the result.
async function follow(source, turn) {
  const controller = new AbortController();
  running = controller;
  const conversation = turns;
  showRunning(true);
  const view = new AnswerView({ again });
  view.setBusy(true);
  messages.append(view.article);
  await keepTurns().catch(() => {}); // The save after the answer reports errors.
  const { answer, goesOn } = await watch(source, turn.stream, controller.signal, view);
  if (running !== controller) return; // another conversation is open
  running = null;
  showRunning(false);
  if (conversation !== turns) return;
  await settle(turn, answer, goesOn, controller.signal.aborted);
}

// Reads a stream to its end, showing it as it arrives.
async function watch(source, name, signal, view) {
  const frames = new Frames((answer) => {
    const { article } = view;
    const isLow =
      article.isConnected &&
      messages.scrollHeight - messages.scrollTop - messages.clientHeight < 80;
    view.show(answer);
    if (isLow) messages.scrollTop = messages.scrollHeight;
  });
  let told = "";
  const result = await read(source, name, signal, (coming) => {
    frames.next(coming);
    // Other messages stay until the link's state changes.
    if (coming.state === told) return;
    told = coming.state;
    say(told === "online" ? "online" : `${told}: underlined text is not confirmed`);
  });
  frames.end(result.answer);
  view.setBusy(false);
  return result;
}

// Puts the answer into its turn.
async function settle(turn, answer, goesOn, isStopped) {
  const name = turn.stream;
  // If this fails, the stream ends by itself and is dropped after ten minutes.
  const forget = () => void api.forget(name).catch(() => {});
  if (isStopped) forget(); // ends the answer
  turn.private = Boolean(answer.counts?.private) || turn.private;
  turn.answer = { ...answer };
  delete turn.stream;
  say(answer.note());
  look();
  // The stored conversation still names the stream; opened again, it has the answer.
  if (goesOn) return;
  // The answer can be read again until it is stored.
  if ((await keep()) && !isStopped) forget();
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const content = text.value.trim();
  if (!content || running) return;
  turns = [
    ...earlier(),
    { role: "user", content, private: MARK.test(content) || mode.value === "local" },
  ];
  box.sent();
  show();
  look();
  void answer();
});

// Enter and Escape may belong to an input method, which Safari shows only by key code.
const isComposing = (event) => event.isComposing || event.keyCode === 229;

text.addEventListener("keydown", (event) => {
  if (isComposing(event)) return;
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    byId("composer").requestSubmit();
  } else if (event.key === "Escape" && box.edited) {
    event.preventDefault();
    cancelEdit();
  }
});

byId("stop").addEventListener("click", () => running?.abort());
byId("cancel").addEventListener("click", cancelEdit);
byId("new").addEventListener("click", () => {
  closeMenu();
  begin();
});

function showMenu(isOpen) {
  byId("side").classList.toggle("open", isOpen);
  byId("menu").setAttribute("aria-expanded", String(isOpen));
}
byId("menu").addEventListener("click", () => showMenu(!byId("side").classList.contains("open")));

// On a phone the list covers the messages. Hidden elements must not have the focus.
function closeMenu() {
  const side = byId("side");
  if (!side.classList.contains("open")) return;
  const hadFocus = side.contains(document.activeElement);
  showMenu(false);
  if (hadFocus) byId("menu").focus();
}

byId("mark").addEventListener("click", () => {
  const { selectionStart: from, selectionEnd: to } = text;
  text.setRangeText(`<private>${text.value.slice(from, to)}</private>`, from, to, "end");
  text.focus();
  look();
});

function look() {
  const content = text.value.trim();
  const history = content ? [...sent(earlier()), { role: "user", content }] : [];
  uplink.look(history, mode.value).catch((error) => say(error.message));
}
byId("look").addEventListener("click", () => {
  byId("look").setAttribute("aria-expanded", String(uplink.toggle()));
  look();
});
let waiting = null;
text.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(look, 300);
});
mode.addEventListener("change", () => {
  look();
  void keep();
});

function showPlug(isIn) {
  byId("plug").setAttribute("aria-pressed", String(!isIn));
  byId("plug").textContent = isIn ? "Pull the plug" : "Plug in";
}
byId("plug").addEventListener("click", () =>
  attempt(
    async () => showPlug(await api.plugged(byId("plug").getAttribute("aria-pressed") === "true")),
    "the plug was not changed",
  ),
);

try {
  showPlug(await api.plugged());
  await showList();
  if (location.hash.length > 1) await open(location.hash.slice(1));
} catch (error) {
  say(error.message);
}
