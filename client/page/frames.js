// Draws what comes faster than a screen shows it: once a frame, and then the last that came.
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

  // At once: a tab that is hidden has no frames.
  end(value) {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#draw(value);
  }
}
