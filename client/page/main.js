// Wires the page: which conversation is open, what is being said, what is kept of it.

import * as api from "./api.js";
import { Answer } from "./answer.js";
import { AnswerView, listItem, sentItem, userMessage } from "./view.js";

const byId = (id) => document.getElementById(id);
const [list, messages, text, mode, state] = ["list", "messages", "text", "mode", "state"].map(byId);

// A name that nobody guesses. crypto.randomUUID() is for https and this machine alone.
const newName = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// Of the open conversation. An answer that is still coming has a stream's name and no content.
let id = newName();
let turns = [];
let running = null; // AbortController

const TITLE_CHARACTERS = 60;
const SHOWN_MESSAGES = 50;
const RESUMES = 3; // of a stream that breaks off
const RESUMES_AFTER_MS = 500;

api.onKeyWanted(
  () =>
    new Promise((resolve) => {
      const dialog = byId("ask");
      // The Escape key closes it without one.
      dialog.returnValue = "";
      dialog.addEventListener("close", () => resolve(dialog.returnValue ? byId("key").value : null), { once: true });
      dialog.showModal();
    }),
);

function titleOf() {
  const first = turns.find((turn) => turn.role === "user")?.content ?? "";
  const line = first.replace(/<\/?private>/g, "").trim().split("\n")[0];
  return Array.from(line).slice(0, TITLE_CHARACTERS).join("") || "New conversation";
}

const isPrivate = () => turns.some((turn) => turn.private);

const keepTurns = () =>
  api.keepConversation(id, { title: titleOf(), private: isPrivate(), document: { turns, mode: mode.value } });

// Whether it could be kept; if not, that is said.
async function keep() {
  try {
    if (turns.length > 0) await keepTurns();
    await showList();
    return true;
  } catch (error) {
    state.textContent = `${error.message}: the conversation is not kept`;
    return false;
  }
}

async function showList() {
  const entries = await api.listConversations();
  list.replaceChildren(
    ...entries.map((entry) =>
      listItem(entry, entry.id === id, {
        open: () => open(entry.id),
        remove: () => remove(entry.id),
      }),
    ),
  );
}

async function remove(unwanted) {
  const last = (unwanted === id ? turns : (await api.readConversation(unwanted))?.turns)?.at(-1);
  // First, as an answer that ends meanwhile would be kept.
  if (unwanted === id) begin();
  await api.removeConversation(unwanted);
  if (last?.stream) await api.forget(last.stream); // which ends it
  await showList();
}

function begin() {
  running?.abort();
  id = newName();
  turns = [];
  mode.value = "";
  show();
  text.focus();
}

async function open(wanted) {
  const conversation = await api.readConversation(wanted);
  if (!conversation) return;
  running?.abort();
  id = wanted;
  turns = conversation.turns;
  mode.value = conversation.mode ?? "";
  byId("side").classList.remove("open");
  show();
  const last = turns.at(-1);
  // Before anything is waited for, as nothing may be asked until it has ended.
  if (last?.stream) void follow(api.resume, last);
  await showList();
}

function show() {
  byId("title").textContent = turns.length > 0 ? titleOf() : "New conversation";
  location.hash = turns.length > 0 ? id : "";
  messages.replaceChildren();
  turns.forEach((turn, index) => {
    if (turn.role === "user") {
      messages.append(
        userMessage(turn.content, {
          edit: () => {
            if (running) return;
            text.value = turn.content;
            turns = turns.slice(0, index);
            show();
            text.focus();
          },
        }),
      );
    } else if (!turn.stream) {
      const view = new AnswerView({ again: () => again(index) });
      view.show(Object.assign(new Answer(), turn.answer));
      messages.append(view.article);
    }
  });
  messages.scrollTop = messages.scrollHeight;
}

function again(index) {
  if (running) return;
  turns = turns.slice(0, index);
  show();
  void answer();
}

// An answer without text, stopped or broken off before any or of a thought alone, is sent like the
// others: many templates want user and assistant to take turns.
const sent = () =>
  turns
    .filter((turn) => turn.role === "user" || turn.answer)
    .map((turn) => ({ role: turn.role, content: turn.role === "user" ? turn.content : turn.answer.text }));

async function answer() {
  const history = sent();
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

// Reads a stream to its end, and shows what it comes to. An answer goes on where its reader falls
// behind or its connection fails, so it is read again from its beginning then. With the answer comes
// whether it may go on still, out of reach.
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
      if (!answer.finished) throw new Error("the answer was broken off");
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

// Shows a stream while it comes, and keeps what it came to.
async function follow(source, turn) {
  const controller = new AbortController();
  running = controller;
  const conversation = turns;
  byId("stop").hidden = false;
  byId("send").disabled = true;
  const index = turns.indexOf(turn);
  const view = new AnswerView({ again: () => again(index) });
  messages.append(view.article);
  await keepTurns().catch(() => {}); // The save behind the answer says what is wrong.
  const { answer, goesOn } = await read(source, turn.stream, controller.signal, (coming) => {
    const low = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 80;
    view.show(coming);
    if (low) messages.scrollTop = messages.scrollHeight;
    state.textContent = coming.state === "online" ? "online" : `${coming.state}: underlined text is not confirmed`;
  });
  view.show(answer);
  if (running !== controller) return; // another conversation is open
  running = null;
  byId("stop").hidden = true;
  byId("send").disabled = false;
  if (conversation !== turns) return;
  const name = turn.stream;
  const stopped = controller.signal.aborted;
  if (stopped) void api.forget(name); // which ends it
  turn.private = Boolean(answer.counts?.private) || turn.private;
  turn.answer = { ...answer };
  delete turn.stream;
  state.textContent = answer.note();
  // The conversation that is kept names the stream still: opened again it has the answer.
  if (goesOn) return;
  // Until it is kept the answer can be read again.
  if ((await keep()) && !stopped) void api.forget(name);
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const content = text.value.trim();
  if (!content || running) return;
  turns.push({ role: "user", content, private: content.includes("<private>") || mode.value === "local" });
  text.value = "";
  show();
  void answer();
});

text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("composer").requestSubmit();
  }
});

byId("stop").addEventListener("click", () => running?.abort());
byId("new").addEventListener("click", begin);
byId("menu").addEventListener("click", () => {
  const isOpen = byId("side").classList.toggle("open");
  byId("menu").setAttribute("aria-expanded", String(isOpen));
});
byId("mark").addEventListener("click", () => {
  const { selectionStart: from, selectionEnd: to } = text;
  text.setRangeText(`<private>${text.value.slice(from, to)}</private>`, from, to, "end");
  text.focus();
  void look();
});

async function look() {
  if (byId("leaves").hidden) return;
  const content = text.value.trim();
  const history = content ? [...sent(), { role: "user", content }] : sent();
  if (history.length > 0) {
    const shown = await api.preview(history, mode.value).catch((error) => ({ message: error.message }));
    byId("preview").textContent =
      shown.is_local && !shown.messages?.length
        ? "Nothing: it holds private text."
        : (shown.messages?.at(-1)?.content ?? shown.message);
  }
  const left = await api.uplink(0);
  byId("uplink").replaceChildren(...left.slice(-SHOWN_MESSAGES).reverse().map(sentItem));
}
byId("look").addEventListener("click", () => {
  const leaves = byId("leaves");
  leaves.hidden = !leaves.hidden;
  byId("look").setAttribute("aria-expanded", String(!leaves.hidden));
  void look();
});
let waiting = null;
text.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(look, 300);
});
mode.addEventListener("change", () => {
  void look();
  void keep();
});

function showPlug(isIn) {
  byId("plug").setAttribute("aria-pressed", String(!isIn));
  byId("plug").textContent = isIn ? "Pull the plug" : "Plug in";
}
byId("plug").addEventListener("click", async () => {
  showPlug(await api.plugged(byId("plug").getAttribute("aria-pressed") === "true"));
});

try {
  showPlug(await api.plugged());
  await showList();
  if (location.hash.length > 1) await open(location.hash.slice(1));
} catch (error) {
  state.textContent = error.message;
}
