/** Elements of the page by their ids, and new ones. */

/**
 * The element with an id.
 * @template {typeof HTMLElement} [T=typeof HTMLElement]
 * @param {string} id
 * @param {T} [kind] class of the element
 * @returns {InstanceType<T>}
 * @throws {Error} where the page has no such element
 */
export function $(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof (kind ?? HTMLElement))) throw new Error(`The page has no element ${id} of class ${(kind ?? HTMLElement).name}.`);
  return /** @type {InstanceType<T>} */ (found);
}

/**
 * The first element within another one that a selector names.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {Element} host
 * @param {T|string} selector a tag, or any selector
 * @returns {HTMLElementTagNameMap[T]}
 * @throws {Error} where there is none
 */
export function part(host, selector) {
  const found = host.querySelector(selector);
  if (found === null) throw new Error(`${host.id || host.tagName} has no ${selector}.`);
  return /** @type {HTMLElementTagNameMap[T]} */ (found);
}

/**
 * An element with text in it; never markup.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} [text]
 * @param {Record<string, string|number|null>} [attributes]
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/**
 * The pen of a canvas.
 * @param {HTMLCanvasElement} canvas
 * @returns {CanvasRenderingContext2D}
 */
export function penOf(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}
