// Display of messages. Untrusted answers are rendered as Markdown without HTML, then sanitized.

let markdown = null;
// Debian 12's DOMPurify (2.4.1+dfsg+~2.4.0-2+deb12u1) reads a variable that it does not declare.
window.shadowNode ??= {};

function render(text) {
  markdown ??= window.markdownit({ html: false, linkify: false, breaks: false }).disable("image");
  const shown = document.createElement("template");
  shown.innerHTML = window.DOMPurify.sanitize(markdown.render(text), {
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    FORBID_TAGS: ["style", "img", "svg", "math", "form", "input", "iframe", "video", "audio"],
    FORBID_ATTR: ["style", "id", "class", "name"],
  });
  return shown.content;
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function button(label, act) {
  const made = element("button", { type: "button", textContent: label });
  made.addEventListener("click", act);
  return made;
}

export function userMessage(text, actions) {
  const body = element("div", { className: "body", textContent: text, dir: "auto" });
  return element(
    "article",
    { className: "user" },
    element("h2", { textContent: "You" }),
    body,
    element("p", { className: "note" }, button("Edit", actions.edit)),
  );
}

// If `actions` has no `again`, the answer cannot be requested again.
export class AnswerView {
  constructor(actions) {
    this.thought = element("div", { className: "body", dir: "auto" });
    this.thoughts = element(
      "details",
      { hidden: true },
      element("summary", { textContent: "Thoughts" }),
      this.thought,
    );
    this.body = element("div", { className: "body", dir: "auto" });
    this.note = element("p", { className: "note" });
    this.article = element(
      "article",
      { className: "assistant" },
      element("h2", { textContent: "Answer" }),
      this.thoughts,
      this.body,
      this.note,
    );
    this.actions = actions;
  }

  // Screen readers do not read a busy answer word by word.
  setBusy(isBusy) {
    this.article.setAttribute("aria-busy", String(isBusy));
  }

  show(answer) {
    this.thoughts.hidden = answer.thought === "";
    this.thought.textContent = answer.thought;
    const rest = answer.text.slice(answer.confirmed);
    this.body.replaceChildren(render(answer.text.slice(0, answer.confirmed)));
    if (rest) {
      const title = answer.finished
        ? "never checked by the server"
        : "not yet confirmed by the server";
      this.body.append(element("span", { className: "unconfirmed", textContent: rest, title }));
    }
    this.note.replaceChildren(
      element("span", { className: answer.broken ? "failed" : "", textContent: answer.note() }),
    );
    const isOver = answer.finished || answer.broken;
    if (isOver && this.actions.again)
      this.note.append(" ", button("Regenerate", this.actions.again));
  }
}

// Stable ids let the focus find its button in the next list.
export function listItem(entry, isCurrent, actions) {
  const open = button((entry.private ? "🔒 " : "") + (entry.title || "Untitled"), actions.open);
  open.id = `open-${entry.id}`;
  open.title = entry.private ? "held in memory only: lost when the endpoint stops" : "";
  open.setAttribute("aria-current", String(isCurrent));
  const remove = button("✕", actions.remove);
  remove.id = `delete-${entry.id}`;
  remove.setAttribute("aria-label", `Delete ${entry.title}`);
  return element("li", {}, open, remove);
}

export function sentItem(message) {
  const item = element("li", { textContent: `${message.kind}, ${message.bytes} bytes` });
  if (message.text) item.append(element("pre", { textContent: message.text }));
  if (message.hex) {
    item.append(
      element(
        "details",
        {},
        element("summary", { textContent: "bytes" }),
        element("code", { textContent: message.hex }),
      ),
    );
  }
  return item;
}
