// What is typed in the message box: a new message, or other words for an earlier turn. Either waits
// there while the box is used for the other; the turns change only when it is sent.
export class Draft {
  edited = null; // the turn that is to be replaced; null: the message is a new one
  #box;
  #waiting = new Map(); // by the turns that they are for, null being the new one

  constructor(box) {
    this.#box = box;
  }

  edit(turn) {
    this.#waiting.set(this.edited, this.#box.value);
    this.edited = turn;
    this.#box.value = this.#waiting.get(turn) ?? turn.content;
  }

  // Goes back to the new message.
  cancel() {
    if (!this.edited) return;
    this.#waiting.delete(this.edited);
    this.edited = null;
    this.#box.value = this.#waiting.get(null);
  }

  sent() {
    if (this.edited) this.cancel();
    else this.#box.value = "";
  }

  // Another conversation has other turns; the new message comes along.
  leave() {
    this.cancel();
    this.#waiting.clear();
  }
}
