// What would leave the device, and what has: as long as somebody looks.

import * as api from "./api.js";
import { sentItem } from "./view.js";

const SHOWN_MESSAGES = 50;

// The last of these messages, as it would be sent.
async function wouldLeave(messages, mode) {
  const shown = await api.preview(messages, mode).catch((error) => ({ message: error.message }));
  if (shown.is_local && !shown.messages?.length) return "Nothing: it holds private text.";
  return shown.messages?.at(-1)?.content ?? shown.message;
}

export class Leaves {
  #panel;
  #preview;
  #uplink;
  #looks = 0; // that were begun: only the latest is shown
  #since = 0; // the number of the last message that is shown

  constructor(panel, preview, uplink) {
    this.#panel = panel;
    this.#preview = preview;
    this.#uplink = uplink;
  }

  // Whether it is open after that.
  toggle() {
    this.#forget();
    this.#panel.hidden = !this.#panel.hidden;
    return !this.#panel.hidden;
  }

  // Without messages nothing would be sent. What the endpoint says is wrong is thrown.
  async look(messages, mode) {
    const mine = ++this.#looks;
    if (this.#panel.hidden) return;
    const preview = messages.length > 0 ? await wouldLeave(messages, mode) : "";
    if (mine !== this.#looks) return;
    this.#preview.textContent = preview;
    try {
      const left = await api.uplink(this.#since);
      if (mine === this.#looks) this.#add(left);
    } catch (error) {
      if (mine !== this.#looks) return;
      // An endpoint that was started anew counts from 1 again.
      this.#forget();
      throw error;
    }
  }

  #add(left) {
    if (left.length === 0) return;
    this.#since = left.at(-1).number;
    this.#uplink.prepend(...left.slice(-SHOWN_MESSAGES).reverse().map(sentItem));
    while (this.#uplink.children.length > SHOWN_MESSAGES) this.#uplink.lastElementChild.remove();
  }

  #forget() {
    this.#since = 0;
    this.#uplink.replaceChildren();
  }
}
