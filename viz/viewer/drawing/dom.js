// Creates elements without innerHTML, so that markup in a sentence stays text.

const SVG = 'http://www.w3.org/2000/svg';

// Words of a sentence have a direction of their own, and a browser that translates the page leaves them.
/** @type {<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, attributes?: Attributes, ...children: Child[]) => HTMLElementTagNameMap[Tag]} */
export function element(tag, attributes = {}, ...children) {
  const own = tag === 'bdi' || attributes.dir === 'auto' ? { translate: 'no' } : {};
  return fill(document.createElement(tag), { ...own, ...attributes }, children);
}

/** @type {<Tag extends keyof SVGElementTagNameMap>(tag: Tag, attributes?: Attributes, ...children: Child[]) => SVGElementTagNameMap[Tag]} */
export const shape = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** @type {(className: string, onclick: ((event: MouseEvent) => void) | null, attributes?: Attributes, ...children: Child[]) => HTMLButtonElement} */
export const createButton = (className, onclick, attributes, ...children) =>
  element('button', { type: 'button', class: className, onclick, ...attributes }, ...children);

/** @type {<E extends Element>(node: E, attributes: Attributes, children: Child[]) => E} */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flatMap((child) => child ?? []));
  return node;
}

// A widget of the page around the viewer, which is there once the viewer is mounted.
/** @type {<Kind extends HTMLElement>(selector: string) => Kind} */
export const find = (selector) => /** @type {any} */ (document.querySelector(selector));

// Whether an event came from an element like this; it may come from the document itself.
/** @type {(target: EventTarget | null, selector: string) => boolean} */
export const matches = (target, selector) => target instanceof Element && target.matches(selector);

const LONGEST_TOKEN = 80; // characters; a much longer token would push everything else off the screen
// Invisible, bidirectional-control and line-break characters. A token shows all of them by name, except characters that join
// or colour an emoji (the group); a sentence shows only characters that would change its line.
const INVISIBLE =
  /(\p{ExtPict}[\p{EMod}\uFE0F]{0,2}(?:\u200D\p{ExtPict}[\p{EMod}\uFE0F]{0,2})*)|[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800]/gu;
const LINE_CHANGING = /[\p{Cc}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

// The text of a token for the person. A token of spaces alone is shown as ␣, so that there is something to point at.
/** @type {(token: { text: string }) => string} */
export function visible({ text }) {
  const letters = [...text];
  const short = letters.length > LONGEST_TOKEN ? `${letters.slice(0, LONGEST_TOKEN).join('')}…` : text;
  const written = nameInvisible(short);
  if (written.trim() === '') return '␣';
  return /^\p{M}/u.test(written) ? `◌${written}` : written;
}

/** @type {(text: string) => string} */
export const nameInvisible = (text) => text.replace(INVISIBLE, (character, emoji) => emoji ?? nameOf(character));

// A sentence with the characters replaced that would turn or break its line.
/** @type {(text: string) => string} */
export const readable = (text) => text.replace(LINE_CHANGING, nameOf);

// A control character as its symbol, any other as its number: ␀, ⟨U+202E⟩.
/** @type {(character: string) => string} */
function nameOf(character) {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return code === 0x7f ? '␡' : `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

// A token in its own text direction, so that a right-to-left word does not reorder its surroundings.
/** @type {(token: { text: string; special?: boolean }, className?: string) => HTMLElement} */
export function tokenText(token, className = '') {
  const classes = [className, token.special ? 'hl-special' : ''].filter(Boolean).join(' ');
  return element('bdi', { class: classes || null, lang: '', translate: 'no' }, visible(token));
}

// Controls of a panel, where the browser can put the focus; words of the glossary are underlined after a panel is drawn.
const CONTROLS = 'button:not(.hl-term), input, select, textarea, summary, a, [tabindex]';

// Replaces the children of a node. The focus stays on the control in the same place, or on the nearest one that can have it.
/** @type {(node: Element, ...children: (Node | string)[]) => void} */
export function replaceKeepingFocus(node, ...children) {
  /** @type {() => HTMLInputElement[]} */
  const controls = () => [...node.querySelectorAll(/** @type {'input'} */ (CONTROLS))];
  const focused = controls().findIndex((control) => control === document.activeElement);
  node.replaceChildren(...children);
  if (focused < 0) return;
  const places = controls().map((control, place) => ({ control, distance: Math.abs(place - focused) }));
  const [nearest] = places
    .filter(({ control }) => !control.disabled)
    .sort((one, other) => one.distance - other.distance);
  nearest?.control.focus({ preventScroll: true });
}

// How much larger than 16 px the browser's letters are. Styles are in rem; what is measured in pixels follows with this.
export const letterScale = () => Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

// Sets the size of a canvas in CSS pixels, with the resolution of the screen; returns its context.
/** @type {(canvas: HTMLCanvasElement, width: number, height: number) => CanvasRenderingContext2D} */
export function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
  return context;
}

// Calls `read(event)` while a mouse moves over the node and where a finger taps it; `forget` when the mouse leaves.
/** @type {(node: GlobalEventHandlers, read: (event: MouseEvent) => void, forget: () => void) => void} */
export function readUnderPointer(node, read, forget) {
  const isFinger = ({ pointerType }) => pointerType === 'touch';
  node.addEventListener('pointermove', (event) => !isFinger(event) && read(event));
  node.addEventListener('pointerleave', (event) => !isFinger(event) && forget());
  node.addEventListener('click', read);
}
