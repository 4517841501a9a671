// A layer of painted pixels: the hole in a picture, or the ink on the drawing sheet. It has an undo history.

const PAINTED = 0xffffffff;
const UNDO_STEPS = 100;

/**
 * A hole that the server finds by itself: part of a face, half of a face in a whole photo, or a random hole.
 * @typedef {{part: string}|{half: string}|{random: true}} Rule
 */

/** Painted pixels of a picture, one by one. */
export class Layer {
  /** @type {{runs: number[], rule: Rule|null}[]} */ #undo = [];
  /** @type {{runs: number[], rule: Rule|null}[]} */ #redo = [];

  /**
   * @param {number} width
   * @param {number} height
   */
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    /** @type {Rule|null} */ this.rule = null;
    this.canvas = document.createElement("canvas");
    this.canvas.width = width;
    this.canvas.height = height;
    this.context = this.canvas.getContext("2d");
  }

  /** True if no pixel is painted. */
  get empty() {
    return !this.pixels.includes(PAINTED);
  }

  /** The share of painted pixels, from 0 to 1. */
  get share() {
    let painted = 0;
    for (const pixel of this.pixels) if (pixel) painted++;
    return painted / this.pixels.length;
  }

  /** @returns {boolean} whether the pixel is painted */
  at(x, y) {
    return this.pixels[y * this.width + x] !== 0;
  }

  /**
   * Paints a thick line with round ends. The pixel at each end is always painted.
   * @param {number[]} from x and y in pixels
   * @param {number[]} to
   * @param {number} diameter
   * @param {boolean} painted false erases
   */
  line([x0, y0], [x1, y1], diameter, painted) {
    const radius = Math.max(diameter / 2, 0.5);
    const left = Math.max(0, Math.floor(Math.min(x0, x1) - radius));
    const top = Math.max(0, Math.floor(Math.min(y0, y1) - radius));
    const right = Math.min(this.width, Math.ceil(Math.max(x0, x1) + radius) + 1);
    const bottom = Math.min(this.height, Math.ceil(Math.max(y0, y1) + radius) + 1);
    const [dx, dy] = [x1 - x0, y1 - y0];
    const squared = dx * dx + dy * dy;
    const value = painted ? PAINTED : 0;
    for (let y = top; y < bottom; y++) {
      for (let x = left; x < right; x++) {
        const [px, py] = [x + 0.5 - x0, y + 0.5 - y0];
        const along = squared ? Math.min(1, Math.max(0, (px * dx + py * dy) / squared)) : 0;
        if (Math.hypot(px - along * dx, py - along * dy) <= radius) this.pixels[y * this.width + x] = value;
      }
    }
    for (const [x, y] of [[x0, y0], [x1, y1]]) this.#set(Math.floor(x), Math.floor(y), value);
    this.rule = null;
    if (right > left && bottom > top) this.context.putImageData(this.image, 0, 0, left, top, right - left, bottom - top);
  }

  #set(x, y, value) {
    if (x >= 0 && y >= 0 && x < this.width && y < this.height) this.pixels[y * this.width + x] = value;
  }

  /**
   * Paints a box; parts outside the picture are left out.
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   * @param {boolean} [painted]
   */
  box(x, y, width, height, painted = true) {
    const [left, right] = [Math.max(0, x), Math.min(this.width, x + width)];
    for (let row = Math.max(0, y); row < Math.min(this.height, y + height); row++) {
      if (right > left) this.pixels.fill(painted ? PAINTED : 0, row * this.width + left, row * this.width + right);
    }
    this.refresh();
  }

  /** @param {"left"|"right"|"top"|"bottom"} side */
  half(side) {
    const [halfWidth, halfHeight] = [Math.floor(this.width / 2), Math.floor(this.height / 2)];
    this.pixels.fill(0);
    if (side === "left") this.box(0, 0, halfWidth, this.height);
    if (side === "right") this.box(this.width - halfWidth, 0, halfWidth, this.height);
    if (side === "top") this.box(0, 0, this.width, halfHeight);
    if (side === "bottom") this.box(0, this.height - halfHeight, this.width, halfHeight);
  }

  clear() {
    this.pixels.fill(0);
    this.refresh();
  }

  invert() {
    for (let i = 0; i < this.pixels.length; i++) this.pixels[i] = this.pixels[i] ? 0 : PAINTED;
    this.refresh();
  }

  /**
   * Takes the pixels that are white (or black) in a picture of any size.
   * @param {CanvasImageSource & {width: number, height: number}} picture
   * @param {boolean} [white] whether white means painted
   */
  take(picture, white = true) {
    const canvas = document.createElement("canvas");
    canvas.width = picture.width;
    canvas.height = picture.height;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(picture, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const given = new Layer(canvas.width, canvas.height);
    for (let i = 0; i < given.pixels.length; i++) {
      const level = 0.299 * data[4 * i] + 0.587 * data[4 * i + 1] + 0.114 * data[4 * i + 2];
      given.pixels[i] = level >= 127.5 === white ? PAINTED : 0;
    }
    this.takeLayer(given);
  }

  /**
   * Takes the pixels of another layer. Where it is larger, a pixel is painted if any of the pixels that it replaces is.
   * @param {Layer} other
   */
  takeLayer(other) {
    const [stepX, stepY] = [other.width / this.width, other.height / this.height];
    for (let y = 0; y < this.height; y++) {
      const [top, bottom] = [Math.floor(y * stepY), Math.max(Math.floor(y * stepY) + 1, Math.ceil((y + 1) * stepY))];
      for (let x = 0; x < this.width; x++) {
        const left = Math.floor(x * stepX);
        const right = Math.max(left + 1, Math.ceil((x + 1) * stepX));
        this.pixels[y * this.width + x] = other.#anyIn(left, top, stepX > 1 ? right : left + 1, stepY > 1 ? bottom : top + 1);
      }
    }
    this.refresh();
  }

  #anyIn(left, top, right, bottom) {
    for (let y = top; y < Math.min(bottom, this.height); y++) {
      for (let x = left; x < Math.min(right, this.width); x++) if (this.pixels[y * this.width + x]) return PAINTED;
    }
    return 0;
  }

  /** Lengths of runs of equal pixels, row by row, starting with unpainted ones. */
  get runs() {
    const runs = [];
    let [start, value] = [0, 0];
    for (let i = 0; i <= this.pixels.length; i++) {
      if (i < this.pixels.length && this.pixels[i] === value) continue;
      runs.push(i - start);
      [start, value] = [i, this.pixels[i]];
    }
    return runs;
  }

  set runs(runs) {
    let [start, value] = [0, 0];
    for (const run of runs) {
      this.pixels.fill(value, start, start + run);
      [start, value] = [start + run, value ? 0 : PAINTED];
    }
    this.refresh();
  }

  /** Copies all pixels to the canvas. A rule no longer describes them. */
  refresh() {
    this.rule = null;
    this.context.putImageData(this.image, 0, 0);
  }

  /** Keeps the present pixels, so that the edit that follows can be undone. */
  checkpoint() {
    this.#undo.push({ runs: this.runs, rule: this.rule });
    if (this.#undo.length > UNDO_STEPS) this.#undo.shift();
    this.#redo = [];
  }

  get canUndo() {
    return this.#undo.length > 0;
  }

  get canRedo() {
    return this.#redo.length > 0;
  }

  undo() {
    this.#step(this.#undo, this.#redo);
  }

  redo() {
    this.#step(this.#redo, this.#undo);
  }

  /** Takes the last edit back for good, such as a stroke that turns out to be a pinch. */
  cancelEdit() {
    this.#step(this.#undo, []);
  }

  #step(from, to) {
    const edit = from.pop();
    if (!edit) return;
    to.push({ runs: this.runs, rule: this.rule });
    this.runs = edit.runs;
    this.rule = edit.rule;
  }

  /**
   * The layer as a picture file.
   * @param {string} paintedColour
   * @param {string} emptyColour
   * @returns {Promise<Blob>} PNG
   */
  toPng(paintedColour, emptyColour) {
    const canvas = document.createElement("canvas");
    canvas.width = this.width;
    canvas.height = this.height;
    const context = canvas.getContext("2d");
    context.drawImage(this.canvas, 0, 0);
    context.globalCompositeOperation = "source-in";
    context.fillStyle = paintedColour;
    context.fillRect(0, 0, this.width, this.height);
    context.globalCompositeOperation = "destination-over";
    context.fillStyle = emptyColour;
    context.fillRect(0, 0, this.width, this.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }
}
