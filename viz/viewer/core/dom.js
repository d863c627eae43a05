// Elements without innerHTML: whatever a sentence contains stays text.

const SVG = 'http://www.w3.org/2000/svg';

export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const LONGEST_TOKEN = 80; // characters; one of thousands would push everything else out of sight
// What draws nothing, turns the line or breaks it: of a token all of it but what joins or colours an emoji (the
// group), of a sentence only what spoils its line.
const UNSEEN =
  /(\p{ExtPict}[\p{EMod}\uFE0F]{0,2}(?:\u200D\p{ExtPict}[\p{EMod}\uFE0F]{0,2})*)|[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800]/gu;
const UNRULY = /[\p{Cc}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

// What a person reads of a token; a token of blanks alone would leave nothing to point at.
export function visible({ text }) {
  const letters = [...text];
  const short = letters.length > LONGEST_TOKEN ? `${letters.slice(0, LONGEST_TOKEN).join('')}…` : text;
  const written = spelt(short);
  if (written.trim() === '') return '␣';
  return /^\p{M}/u.test(written) ? `◌${written}` : written;
}

// A sentence of ours about characters, with those that draw nothing by their names.
export function spelt(text) {
  return text.replace(UNSEEN, (character, emoji) => emoji ?? nameOf(character));
}

// A sentence whose line nothing in it can turn or break.
export function readable(text) {
  return text.replace(UNRULY, nameOf);
}

// A control character as its picture, any other as its number: ␀, ⟨U+202E⟩.
function nameOf(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return code === 0x7f ? '␡' : `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

// A token in its own direction, so that a right-to-left word leaves its surroundings alone.
export function tokenText(token, className = '') {
  const classes = [className, token.special ? 'hl-special' : ''].filter(Boolean).join(' ');
  return element('bdi', { class: classes || null }, visible(token));
}

// A canvas of a size in CSS pixels, sharp on the screen that it is on.
export function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
  return context;
}
