// An answer as it arrives: its text, the confirmed part, and its counts.

const cut = (text, characters) => Array.from(text).slice(0, characters).join("");

export class Answer {
  text = "";
  thought = "";
  confirmed = 0; // UTF-16 units of `text` that are verified or final
  state = "online";
  counts = null;
  finished = false;
  broken = ""; // why it did not finish

  take(event) {
    const choice = event.choices?.[0];
    if (!choice) return;
    const told = event.x_edgedraft ?? {};
    if (told.state) this.state = told.state;
    const { content, reasoning_content: thought } = choice.delta ?? {};
    if (thought !== undefined) {
      if (told.revise_from !== undefined) this.thought = cut(this.thought, told.revise_from);
      this.thought += thought;
    } else if (content !== undefined && content !== null) {
      if (told.revise_from !== undefined) this.text = cut(this.text, told.revise_from);
      this.text += content;
      // Text that the target continues is confirmed, or final.
      if (told.provenance !== "offline") this.confirmed = this.text.length;
      this.confirmed = Math.min(this.confirmed, this.text.length);
    }
    if (choice.finish_reason) {
      this.finished = true;
      // Offline text that was never checked stays unconfirmed.
      if (!told.offline_tokens) this.confirmed = this.text.length;
      this.counts = told;
    }
  }

  // Returns one line about the answer.
  note() {
    const c = this.counts;
    if (!c) return this.broken;
    const parts = [`${c.tokens} tokens`];
    if (c.drafted > 0 && c.acceptance_length)
      parts.push(`${c.acceptance_length.toFixed(1)} per pass`);
    else if (c.streamed_because) parts.push(`nothing drafted: ${c.streamed_because}`);
    if (c.offline_tokens > 0) parts.push(`${c.offline_tokens} written offline, unchecked`);
    if (c.rewritten_tokens > 0) parts.push(`${c.rewritten_tokens} corrected`);
    if (c.private === "local") parts.push("no private text was sent");
    if (c.private && c.private !== "local") {
      const kinds = Object.entries(c.private).map(([kind, count]) => `${count} ${kind}`);
      parts.push(`masked: ${kinds.join(", ")}`);
    }
    return parts.join(", ");
  }
}
