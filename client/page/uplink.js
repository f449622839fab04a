// Shows the text that would leave the device, and sent messages, while the panel is open.

import * as api from "./api.js";
import { sentItem } from "./view.js";

const SHOWN_MESSAGES = 50;

// Returns the last of these messages as it would be sent.
async function wouldLeave(messages, mode) {
  const shown = await api.preview(messages, mode).catch((error) => ({ message: error.message }));
  if (shown.is_local && !shown.messages?.length) return "Nothing: the message holds private text.";
  return shown.messages?.at(-1)?.content ?? shown.message;
}

export class Uplink {
  #panel;
  #preview;
  #uplink;
  #looks = 0; // number of calls; only the latest is shown
  #since = 0; // number of the last message shown

  constructor(panel, preview, uplink) {
    this.#panel = panel;
    this.#preview = preview;
    this.#uplink = uplink;
  }

  // Returns true if the panel is now open.
  toggle() {
    this.#forget();
    this.#panel.hidden = !this.#panel.hidden;
    return !this.#panel.hidden;
  }

  // Shows nothing to send if there are no messages. Throws the endpoint's errors.
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
      // A restarted endpoint counts from 1 again.
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
