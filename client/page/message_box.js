// Text in the message box: a new message, or a new version of an earlier turn. Each is kept while
// the box shows the other. Turns change only when it is sent.
export class MessageBox {
  edited = null; // the turn to be replaced; null: a new message
  #box;
  #waiting = new Map(); // text by turn; null: the new message

  constructor(box) {
    this.#box = box;
  }

  edit(turn) {
    this.#waiting.set(this.edited, this.#box.value);
    this.edited = turn;
    this.#box.value = this.#waiting.get(turn) ?? turn.content;
  }

  // Returns to the new message.
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

  // Another conversation has other turns; the new message is kept.
  leave() {
    this.cancel();
    this.#waiting.clear();
  }
}
