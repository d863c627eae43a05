// The files of a translation: the request for them, and the HTML files, which a page without a server makes of itself as
// viz/export.py and viz/static/document.py do.

import { asScriptText, escaped, fromBase64, slug, toBase64 } from './domain/files.js';
import { forcedIds, taskOf } from './domain/payload.js';
import { ablationOf } from './state/questions.js';
import { toAddress } from './state/permalink.js';
import { sourceView } from './state/queries.js';
import { say, spokenLanguage, spokenTexts } from './locales/language.js';

const PLACE = /\{(\w+)\}/gu;
const BASE64 = 4 / 3; // characters a byte
const OF_PAGE = 600_000; // bytes of a page without its model
const NO_ANSWERS = 'id="answers">null<'; // in a file without them
const SCRIPT = 'script'; // a script in a page must not contain its own end

// The request that gives the record on screen again: the forced tokens, the tokens of the model, and what muted heads give.
export function onScreen(state) {
  const { record, mutes } = sourceView(state);
  if (!record) return {};
  const given = mutes.length > 0 ? ablationOf(state) : null;
  const muted = { heads: given ? mutes : [], ...given, shows_muted: state.shown?.type === 'muted' };
  const about = { address: location.origin + location.pathname, view: toAddress(state), language: spokenLanguage() };
  return { ...taskOf(record), forced: forcedIds(record), ...muted, ...about };
}

// With the size of a page with its model, whose files are written in base64.
export function titleWithModel(sizes, model) {
  if (!Object.hasOwn(sizes, model)) return say('Page that translates on, offline (HTML)');
  const size = Math.ceil((BASE64 * sizes[model] + OF_PAGE) / 1e6);
  return say('Page that translates on, offline (HTML, {size} MB)', { size });
}

// An `ask` whose answers to `export` and `portable` have the HTML files, as a server's answers do. `parts` gives what the files are
// made of: { documents, look, code, playground, engine }.
export function withDocuments(ask, site, parts) {
  const both = async (request, ...rest) => {
    const answer = await ask(request, ...rest);
    if (request.do === 'export') return withFile(await parts(), request, answer);
    if (request.do === 'portable') return { name: answer.name, html: portableOf(await parts(), site, request, answer) };
    return answer;
  };
  return Object.assign(both, ask);
}

// The files of an export, the HTML file with the answers that are on screen: In short and the open questions.
export function withAnswers(files, { summary, importance, answers, values, shown }) {
  if (shown?.type === 'muted') return files;
  const kept = { summary, importance, answers, values: { leave_one_out: values.leave_one_out ?? null } };
  return Object.fromEntries(
    Object.entries(files).map(([name, base64]) => {
      if (!name.endsWith('.html')) return [name, base64];
      const bytes = fromBase64(base64);
      const html = new TextDecoder().decode(bytes);
      const [start, end] = [html.lastIndexOf(NO_ANSWERS), NO_ANSWERS.length]; // the script has the same text
      const found = NO_ANSWERS.replace('null', () => asScriptText(kept));
      return [name, toBase64(new TextEncoder().encode(html.slice(0, start) + found + html.slice(start + end)))];
    }),
  );
}

function fill({ document, parts }, values) {
  const all = { ...parts, ...values };
  return document.replaceAll(PLACE, (_, name) => all[name]);
}

// The page that shows one translation, first among the files.
function withFile(own, request, { payload, files, ...calls }) {
  const { model, source_text: text, muted } = payload;
  const name = `headlight-${slug(model.name)}${headOf(request.view)}-${slug(text)}${muted ? '-muted' : ''}.html`;
  const html = fileOf(own, payload, request);
  return { files: { [name]: toBase64(new TextEncoder().encode(html)), ...files }, ...calls };
}

export function fileOf({ documents, look, code }, payload, { view, address }) {
  const language = spokenLanguage();
  return fill(documents.file, {
    look,
    code,
    language,
    title: escaped(`${payload.source_text} · Headlight`),
    model: escaped(payload.model.title),
    origin: openingOf(address, view),
    without: [
      payload.source_text,
      payload.text,
      say('The picture needs JavaScript; open the file where scripts may run.'),
    ]
      .map(escaped)
      .join(' · '),
    payload: asScriptText(payload),
    settings: asScriptText({ address: true, view: view || null, language, texts: spokenTexts() }),
  });
}

// How to get from the file, which has no model, to a page that has one.
function openingOf(address, view) {
  if (!/^https?:\/\//u.test(address))
    return say('This file has no model. To try more, translate the sentence in Headlight.');
  return `<a href="${escaped(address + view)}">${escaped(say('Open this in Headlight'))}</a>`;
}

// The head of a view for the name of a file, "-cross-4-7".
function headOf(view) {
  const named = new URLSearchParams(view.slice(1));
  const found = ['kind', 'layer', 'head'].map((name) => named.get(name) ?? '');
  return found.every((part) => /^[a-z0-9]{1,8}$/u.test(part)) ? `-${found.join('-')}` : '';
}

function portableOf(own, site, { view }, { payload, identity, files }) {
  const { name, title } = identity;
  const language = spokenLanguage();
  const texts = site.locales.includes(language) ? { [`texts-${language}`]: spokenTexts() } : {};
  const elements = {
    site: {
      ...siteOf(site, identity, payload),
      view,
      locales: Object.keys(texts).map(() => language),
      locale: language,
    },
    documents: own.documents,
    [`files-${name}`]: files,
    [`stored-${name}`]: payload,
    ...texts,
  };
  const data = Object.entries(elements).map(([id, value]) => element('application/json', id, asScriptText(value)));
  const { parts, document } = own.documents.single;
  const options = `<option value="${escaped(name)}">${escaped(title)}</option>`;
  return fill(
    { document, parts: { ...parts, widgets: parts.widgets.replace('{models}', () => options) } },
    {
      look: own.look,
      code: [own.code, own.playground].map((code) => `<${SCRIPT}>${code}</${SCRIPT}>\n`).join(''),
      data: [...data, element('text/plain', 'engine', own.engine)].join('\n'),
    },
  );
}

const element = (type, id, content) => `<${SCRIPT} type="${type}" id="${escaped(id)}">${content}</${SCRIPT}>`;

// What the page knows of one of its models, or of a model that was trained in it.
function siteOf(site, identity, payload) {
  const { name, title, language } = identity;
  const own = (table) => (Object.hasOwn(table ?? {}, name) ? { [name]: table[name] } : {});
  const { source_text: text, language_prefix: prefix, options } = payload;
  const task = { text, ...options, ...(prefix ? { language_prefix: prefix } : {}) };
  const readers = Object.entries(site.readers).filter(([, model]) => model === name);
  return {
    first: name,
    groups: [['', [[name, title]]]],
    examples: { [name]: [text] },
    buttons: 1,
    readers: Object.fromEntries(readers),
    languages: { [name]: language },
    prefixes: own(site.prefixes),
    sizes: own(site.sizes),
    beam: site.beam,
    about: own(site.about),
    models: { [name]: identity },
    stored: { [name]: task },
    settings: site.settings,
  };
}
