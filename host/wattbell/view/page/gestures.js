/** Mouse, pen and fingers on the rows: zoom, pan, cursors. */

/** Pixels within which a line is grabbed, and within which a press without a move is a click. */
const GRAB = 6;
const CLICK = 4;

/**
 * @param {HTMLElement} stage parent of the rows
 * @param {any} page the page's part:
 *   `plot()` {left, width} of the plots within the stage; `view()` {begin, end};
 *   `look(begin, end)`; `hover(x, y)` and `leave()`; `click(x, y)`;
 *   `cursors()` [[name, tick]...]; `moveCursor(name, x, y)`; `selecting(from, to)` shows a span, null ends it;
 *   `between(from, to)` sets both cursors. Places are pixels from the left edge of the plots and the top of the stage.
 */
export function listen(stage, page) {
  const pointers = new Map();
  /** @type {any} the gesture that is under way: its kind, and what this kind needs */
  let gesture = null;

  const place = (event) => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left - page.plot().left, y: event.clientY - box.top };
  };
  const tick = (x) => {
    const { begin, end } = page.view();
    return begin + (x / page.plot().width) * (end - begin);
  };
  const zoom = (x, factor) => {
    const { begin, end } = page.view();
    const at = tick(Math.min(page.plot().width, Math.max(0, x)));
    page.look(at - (at - begin) * factor, at + (end - at) * factor);
  };
  const pan = (pixels) => {
    const { begin, end } = page.view();
    const by = (pixels / page.plot().width) * (end - begin);
    page.look(begin + by, end + by);
  };
  const near = (x) => page.cursors().find(([, at]) => at !== null && Math.abs(((at - page.view().begin) / (page.view().end - page.view().begin)) * page.plot().width - x) <= GRAB);

  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const scale = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (sideways || event.shiftKey) pan((sideways ? event.deltaX : event.deltaY) * scale);
    else zoom(place(event).x, Math.exp(Math.max(-300, Math.min(300, event.deltaY * scale)) * (event.ctrlKey ? 0.01 : 0.0022)));
  }, { passive: false });

  stage.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    const at = place(event);
    pointers.set(event.pointerId, at);
    stage.setPointerCapture(event.pointerId);
    if (event.pointerType === "touch") {
      gesture = pointers.size === 2 ? pinch() : { kind: "touch", from: at, last: at, moved: false };
      return;
    }
    event.preventDefault();
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    const line = near(at.x);
    if (line) gesture = { kind: "cursor", name: line[0] };
    else if (event.shiftKey) gesture = { kind: "pan", last: at };
    else gesture = { kind: "drag", from: at, measure: event.altKey, moved: false };
  });

  const pinch = () => {
    const [one, other] = [...pointers.values()];
    return { kind: "pinch", ticks: [tick(one.x), tick(other.x)] };
  };

  stage.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, at);
    if (!gesture) {
      if (event.pointerType !== "touch") {
        stage.classList.toggle("grab", Boolean(near(at.x)));
        page.hover(at.x, at.y);
      }
      return;
    }
    if (gesture.kind === "pinch") return squeeze();
    if (gesture.kind === "cursor") return page.moveCursor(gesture.name, at.x, at.y);
    if (gesture.kind === "pan" || gesture.kind === "touch") {
      if (gesture.kind === "touch" && !gesture.moved && Math.abs(at.x - gesture.from.x) < 8) return;
      gesture.moved = true;
      pan(gesture.last.x - at.x);
      gesture.last = at;
      if (gesture.kind === "pan") page.hover(at.x, at.y);
      return;
    }
    gesture.moved ||= Math.abs(at.x - gesture.from.x) > CLICK;
    if (gesture.moved) page.selecting(gesture.from.x, at.x);
  });

  const squeeze = () => {
    if (pointers.size < 2) return;
    const [one, other] = [...pointers.values()].map(({ x }) => x);
    if (Math.abs(one - other) < 12) return;
    // the view in which both fingers stay on their times
    const perPixel = (gesture.ticks[1] - gesture.ticks[0]) / (other - one);
    if (!(perPixel > 0)) return;
    const begin = gesture.ticks[0] - one * perPixel;
    page.look(begin, begin + page.plot().width * perPixel);
  };

  stage.addEventListener("pointerup", (event) => {
    const at = place(event);
    pointers.delete(event.pointerId);
    const done = gesture;
    gesture = null;
    if (event.pointerType !== "touch") page.hover(at.x, at.y);
    if (!done) return;
    if (done.kind === "pinch") {
      // the finger that is left pans on
      const [rest] = pointers.values();
      if (rest) gesture = { kind: "touch", from: rest, last: rest, moved: true };
      return;
    }
    if (done.kind === "drag" && done.moved) {
      page.selecting(null, null);
      const [from, to] = [Math.min(done.from.x, at.x), Math.max(done.from.x, at.x)];
      if (done.measure) page.between(tick(from), tick(to));
      else page.look(tick(from), tick(to));
    } else if ((done.kind === "drag" || done.kind === "touch") && !done.moved) {
      page.click(at.x, at.y);
    }
  });
  stage.addEventListener("pointercancel", (event) => {
    pointers.delete(event.pointerId);
    gesture = null;
    page.selecting(null, null);
  });
  stage.addEventListener("pointerleave", () => page.leave());
}
