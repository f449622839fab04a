// Draws at most once per frame, using the latest value.
export class Frames {
  #draw;
  #last = null;
  #frame = 0;

  constructor(draw) {
    this.#draw = draw;
  }

  next(value) {
    this.#last = value;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw(this.#last);
    });
  }

  // Draws at once, because a hidden tab has no frames.
  end(value) {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#draw(value);
  }
}
