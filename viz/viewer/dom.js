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

// What a person reads of a token; a token of blanks alone would leave nothing to point at.
export function visible(token) {
  return token.text.trim() === '' ? '␣' : token.text;
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
