// The shapes that the whole viewer passes around. They are for the reader and for TypeScript, which checks the JavaScript
// in `make lint`; no script of a page contains them. Layers, heads, rows and columns count from 0.

type Kind = 'encoder' | 'decoder' | 'cross';
type Head = [kind: Kind, layer: number, head: number];
type ByKind<T> = { [kind in Kind]: T };

interface Token {
  id: number;
  piece: string; // as the vocabulary has it
  text: string;
  word: number | null; // the number of its word; null for a special token
  special: boolean;
}

// Attention weights or other numbers of all heads: a number is code / 65535 * scale, in the order layer, head, row, column.
interface HeadArray {
  layers: number;
  heads: number;
  rows: number;
  columns: number;
  codes: Uint16Array | Float64Array;
  scale: number;
}

type Matrix = { rows: number; columns: number; values: Float64Array };

interface RoleDefinition {
  definition: string;
  measure: string | null; // null for mixed and for a memory
  offset: number | null;
  least: number;
  symbol: string; // the path of its glyph
  kinds?: Kind[];
}

interface Measure {
  name: string;
  label: string;
  definition: string;
  unit: string;
  offset: string | null;
  digits: number;
  maximum: number | null;
}
type Definitions = { measures: Measure[]; roles: { [role: string]: RoleDefinition } };

// What even rows give each role of a kind; model/analysis/measures.py: even_evidence.
type EvenShares = { [role: string]: number };
// The heads over the rows of a sentence or of a corpus, [layer][head].
interface MeasuredHeads {
  measures: ByKind<any>; // by the name of a measure
  roles: ByKind<string[][]>;
  even?: ByKind<EvenShares>; // older payloads have none
}

// What a translation is of; a record is one.
interface Task {
  model: { name: string };
  source_text: string;
  language_prefix?: string;
  options?: { beam_size: number; length_penalty: number };
}

// One translation with all its attention: the payload of viz/payload.py, decoded by domain/payload.js.
interface TranslationRecord extends Task, MeasuredHeads {
  version: number;
  model: { name: string; title: string };
  text: string;
  n_forced?: number;
  tokens: { source: Token[]; read: Token[]; predicted: Token[] };
  log_probabilities: number[];
  alternatives: { id: number; text: string; log_probability: number }[][]; // of each step, the likeliest first
  attention: ByKind<HeadArray>;
  masks: ByKind<'full' | 'causal'>;
  definitions: Definitions;
  taught?: [layer: number, head: number] | null; // older payloads have none
  is_recurrent?: boolean; // whether the decoder keeps a running memory in place of self-attention
  missing?: number[]; // source words; older payloads have none
  muted?: { heads: Head[]; ablation: Ablation };
}

// A place of the matrix: a cell, or a row or a column alone. With `token` the row and the column are one token, not a cell.
type Spot = { row: number | null; column: number | null; token?: boolean; step?: number };

// A token of the strip.
type PlaceInStrip = { side: 'source' | 'target'; place: number };

// A cell of one head.
type Cell = { kind: Kind; layer: number; head: number; row: number; column: number };

// Texts of the page. A value of a text may be a text that is translated itself. A catalogue has a form for each plural
// category of its language where the text is about a count.
type Values = { [name: string]: string | number | Node | [text: string, values: Values] | undefined };
type Piece = string | Node;
type Said = string | [text: string, values: Values];
type Catalogue = { [english: string]: string | { [category: string]: string } };

// What drawing/dom.js makes elements of: an attribute of null or false is left out, `on…` listens to an event.
type Attributes = { [name: string]: any };
type Child = Node | string | null | undefined;

// A request: what is done, and its fields. The answer has a form of its own for each; see viz/server/fields.py.
type Question = { do: string; [field: string]: any };
type Answer = any;
type Asked = { question: Question; answer: Answer | null };

type Ablation = { baseline: 'zero' | 'mean' | 'sentence'; sentence: string; row: number | null };
// What muted heads gave, in the answer about an outcome.
type MuteBaseline =
  | { name: 'zero' }
  | { name: 'mean'; sentences: number }
  | { name: 'sentence'; translation: string; rows: ByKind<number> };
type SideB = { by: 'model' | 'step' | 'sentence' | null; with: string; to: string; separate: boolean };
type Reference = { label: string; own?: string; record: TranslationRecord; heads?: readonly Head[] };

// One record and the answers about it; EMPTY_VIEW of state/store.js describes the fields.
interface ViewFields {
  mutes: readonly Head[];
  gold: string;
  muted: any; // what muting `heads` changes
  values: { [request: string]: any };
  removed: { places: number[]; text: string } | null;
  summary: any;
  importance: {
    changes: ByKind<number[][]>;
    usual?: ByKind<number[][]> | null;
    baseline?: MuteBaseline;
    ablation: Ablation;
    isAsked?: boolean;
  } | null;
  cell: any;
  beams: any;
  scored: TranslationRecord | null;
  answers: { [instrument: string]: Asked };
}
interface View extends ViewFields {
  record: TranslationRecord;
}
// A view in place of the model's own translation; openView of state/actions.js.
interface OpenedView extends View {
  type: 'forced' | 'hypothesis' | 'reference' | 'muted' | 'training';
  label: string;
  source: OpenedView | null;
  choices: Partial<State>;
  step?: number;
  sentence?: number;
}
interface BesideView extends View {
  question: Question;
  heads: Pick<State, 'layer' | 'head' | 'lastHead' | 'selection'>;
  [more: string]: any; // of an opened view, if it is a step of a training
}

// What the person chose; CHOICES of state/store.js.
interface Choices {
  kind: Kind;
  layer: number;
  head: number | null;
  reduce: string;
  selection: readonly Head[];
  valueName: string;
  removedAt: number | null;
  pin: Spot | null;
  mutes: readonly Head[];
  ablation: Ablation;
  hideSpecials: boolean;
  words: boolean;
  threshold: number;
  flow: number;
  scale: string;
  fit: boolean;
  sort: string | null;
  panel: string;
  finder: { over: string; x: string; y: string } | null;
  questions: readonly string[];
  linkedBy: string;
  gold: string;
  other: number | null;
  learn: number | null;
  minutes: number | null;
  sideB: SideB | null;
}

// The state of the viewer, with a record on screen; EMPTY of state/store.js describes the fields.
interface State extends View, Choices {
  mutes: readonly Head[];
  gold: string;
  home: View;
  shown: OpenedView | null;
  beside: BesideView | null;
  lastHead: number;
  browsed: any;
  hover: Spot | null;
  step: number;
  reference: Reference | null;
  about: { [model: string]: any };
  trainings: { [model: string]: any };
  surveys: { [model: string]: any };
  played: any;
  aside: Partial<State> | null;
  drawing: { source: number | null } | null;
  busy: any;
  waiting: string;
  translating: any;
  page: any;
  error: string | null;
  theme: string;
  isPrinting: boolean;
  side: 'A' | 'B';
  stateOfA?: State;
}
// The state before the first translation.
interface EmptyState extends Omit<State, 'record' | 'home'> {
  record: null;
  home: ViewFields & { record: null };
}
type Changes = { [field in keyof State]?: State[field] };

interface Store {
  get(): State | EmptyState;
  subscribe(listener: (state: State | EmptyState, before: State | EmptyState) => void): void;
  change(changes: Changes): void;
}

// What sends requests: transport/requests.js. `showPosition` gets the place in the queue, or the progress as text; null
// means that neither is known. `signal` cancels the work.
type Ask = ((request: Question, showPosition?: ShowPosition, signal?: AbortSignal) => Promise<Answer>) & {
  isLocal?: boolean; // the engine answers in the page
  isHere?(model: string): boolean;
  kept?(): Promise<string[]>; // the titles of the models that the browser keeps
  add?(identity: any, files: { [name: string]: Uint8Array }): Promise<void>; // a model that was trained in the page
};
type ShowPosition = (position: number | [text: string, values: Values] | null) => void;
type Count = (progress: [text: string, values: Values]) => [text: string, values: Values]; // changes it before it is shown
interface RunningRequest {
  place: 'busy' | 'translating'; // in the state
  signal: AbortSignal;
  what: string; // what the status line says meanwhile
  question: Question;
  record: TranslationRecord | null;
  isOpen: boolean;
  waiting: string;
  cancel(): void;
  showPosition: ShowPosition;
}
interface Client {
  store: Store;
  ask: Ask | null; // null in a file without a model
  requests: Map<string, RunningRequest>; // the latest one of each name
}

// A row or a column of a grid: one token, or the tokens of a word.
interface Group {
  places: number[];
  token: Token;
  reads: Token | null; // what a row reads; null for other groups
}
// What the matrix shows; state/grid.js.
interface Grid extends Matrix {
  status: Uint8Array;
  rowGroups: Group[];
  columnGroups: Group[];
  hidden: number[] | null;
  nothing?: number[]; // the share of nothing in each row of a running memory
}
interface ValueGrid extends Grid {
  high: number; // what the darkest colour means
}
interface ShownGrid extends ValueGrid {
  value: Value;
  isMax: boolean;
}
// A value of a cell; values/of_heads.js describes the fields.
interface Value {
  name: string;
  formerNames: string[];
  button(): string;
  meaning(): string;
  label(): string;
  unit(): string;
  text(number: number): string;
  isSigned: boolean;
  isShare: boolean;
  isOfHeads: boolean;
  isSubtracted: boolean;
  kinds: Kind[];
  request: string | null;
  doing: (() => string) | null;
  decode(answer: Answer): any;
  canBeShown(state: State, value: Value): boolean;
  isChosen(state: State): boolean;
  choose: ((state: State, keep: (state: State) => Reference) => Changes) | null;
  linkOf(state: State, value: Value): { [parameter: string]: string } | null;
  gridOf(state: State, reference: Reference | null): ValueGrid;
  title: (() => string) | null;
  arcs: (() => string) | null;
  hint(state: State): string;
  factsOf(state: State, reference: Reference | null): string[];
  sayCell: ((state: State, grid: Grid, cell: any) => (Node | string)[]) | null;
  sayRow(names: Values, number: number): (Node | string)[];
  sayColumn(names: Values, number: number): (Node | string)[];
}
// An instrument; instruments/instruments.js describes the fields.
interface Instrument {
  name: string;
  panel: string | null;
  title(): string;
  doing(): string;
  ask(state: State): object | null;
  create?(store: Store): {
    draw(state: State, answer: Answer, question: any): Node[]; // the question with the fields of `ask`
    nothing?(state: State): string;
    controls?: { node: Node; draw(state: State, before: State, refusal: string | null): void };
  };
}

// Of the course: learn/question.js, learn/chapters.js and learn/learn.js describe the fields.
interface CourseQuestion {
  text: string;
  answers: (string | number)[] | ((record: any) => string[]);
  right?: number;
  because: string;
}
interface CourseTask {
  at: string | ((state: State) => string);
  text: string;
  isDone(state: State): boolean;
  result?: string;
}
// A model with a sentence, or an address without either.
type Sentence = { model: string; text: string; own: boolean; address?: undefined };
type Beginning = Sentence | { model?: undefined; text?: undefined; own?: undefined; address: string };
interface CoursePage {
  title: Said;
  begin?: Beginning;
  subject?: string;
  chosen?: string;
  view?: { kind?: Kind; panel?: string; ask?: string };
  tasks?: CourseTask[];
  when?: 'before' | 'after'; // of a page with five questions
  draw?(progress: any, chapters: Chapter[], redraw: () => void, openResult: () => void): Element[];
}
interface Chapter extends CoursePage {
  begin: Beginning;
  subject: string;
  guess: CourseQuestion;
  text: string[];
  tasks: CourseTask[];
  check: CourseQuestion;
  learned: string;
}

// What a training of the playground is after some steps: playground/worker.js.
interface Frame {
  steps: number;
  loss: number | null; // before the first step there is none
  share: number; // of the unseen words that it writes right
  parameters: number;
  lengths: [letters: number, share: number][];
  examples: ByKind<{ rows: number; columns: number; codes: Uint8Array[] }>[];
  written: ({ text: string; isReadable: boolean } | null)[];
}
interface Training {
  layers: number;
  heads: number;
  width: number;
  positions: boolean;
  mask: boolean;
  last: boolean;
  rate: number;
  seed: number;
  task: string;
}

// Whether the person wants to save data, where the browser says so.
interface Navigator {
  connection?: { saveData: boolean };
}

// What the scripts of a page put together.
interface Window {
  Headlight: any;
}

// What the viewer needs of the page around it: page.js.
interface Page {
  store: Store;
  translateAddress: () => unknown;
  openExport(): void;
  otherModels(record: TranslationRecord): { name: string; title: string; to: string }[];
  openModel(identity: any, files: { [name: string]: Uint8Array }): Promise<void>;
  playground?: () => Promise<any>; // the function that makes the playground
  engine?: () => Promise<string>; // the text of the engine's script
}

// Word links: instruments/links.js. A way is one of the ways in which they are found.
type Link = [source: number, target: number];
type Way = { name: string; label: string; links: Link[]; error: number | null };

// What one position read from another on the way to a word: instruments/routes.js. Of what a position carried itself, head and
// column are null.
interface Connection {
  kind: Kind;
  layer: number;
  head: number | null;
  row: number;
  column: number | null;
  flow: number;
}
// With its ends; instruments/route_picture.js.
interface Path extends Connection {
  from: string;
  to: string;
}
type Stack = 'encoder' | 'decoder';
type Places = { [stack in Stack]: number[] };

// Of the engine. Matrices and norms as engine/tensors/products.js and engine/network.js compute with them.
interface Product {
  outputs: number;
  inputs: number;
  width: number; // of a row, with its padding
  codes: Int8Array | Float32Array;
  scales: Float32Array; // of the outputs
  bias: Float32Array;
}
type Norm = { weight: Float32Array; bias: Float32Array };
interface Products {
  matrices: { [name: string]: Product };
  rowOf(matrix: Product, row: number): Float32Array;
  multiply(matrix: Product, rows: number, input: Float32Array): Float32Array;
  forEachRow(
    matrix: Product,
    rows: number,
    input: Float32Array,
    use: (values: Float32Array, row: number) => void,
  ): void;
  logSumExp(values: Float32Array): number;
}
interface Network {
  products: Products;
  width: number;
  heads: number;
  headWidth: number;
  preNorm: boolean;
  activate(x: number): number;
  encoder: any[]; // the layers with their matrices and norms; blocksOf of engine/model.js
  decoder: any[];
  encoderNorm: Norm;
  decoderNorm: Norm;
  source: Product;
  target: Product;
  output: Product;
}
type Floats = Float32Array | Float64Array;
type Vector = { array: Float32Array; start: number };
// Numbers with their gradients.
type Variable = { value: Floats; gradient: Floats };
// Keys and values of a layer: the key of position p begins at start + p * stride, its value d_model numbers later.
interface Memory extends Vector {
  stride: number;
}
// What the decoder reads of one sentence.
type CrossMemory = { length: number; hidden?: number[]; layers: Memory[] };
type Sequence = { cross: CrossMemory; gates: Gates | null; layers: Memory[] };
type Row = { sequence: Sequence; position: number };
interface KindTrace {
  layers: number;
  heads: number;
  rows: number;
  columns: number;
  weights: Float32Array; // [layer, head, row, column]
  queries: Memory[]; // of each layer, as the keys and values
  memories: Memory[];
  outputs: Float32Array[]; // of the heads of each layer, joined
}
type Trace = ByKind<KindTrace> & {
  inputs: ByKind<Float32Array[]>;
  last: { [stack in Stack]: Float32Array | null }; // the rows after the last layer, before its norm
  keep?(kind: Kind, queries: Memory, memory: Memory, outputs: Float32Array): void;
};
type Tensor = { type: string; shape: number[]; bytes: Uint8Array };
interface Tokenizer {
  size: number;
  piece(id: number): string;
  encode(text: string): number[];
  decode(ids: number[]): string;
  tokens(ids: number[]): Token[];
  sourceTokens(text: string): Token[];
}
// The id of a piece, and the text that it was cut from.
type Segment = { id: number; text: string };
type Tokenizers = { source: Tokenizer; target: Tokenizer };
// A head of the model, or several; the row, the column and the step of a question.
type PlaceAsked = { text: string; ids: number[]; kind: Kind; layer: number; head: number; row: number; column: number };
// Awaited between parts of long work; gets the progress, and throws an error if the request is cancelled.
type Pause = (progress?: [text: string, values: Values]) => Promise<void>;
type Loaded = { identity: any; translator: Translator; settings: any; files: any; [kept: string]: any };

// The engine's model with its tokenizers; engine/translator.js. Gates say which heads of an attention are closed in a row, and
// the outputs of all heads that stand there instead, if not zero.
interface Translator {
  model: { config: any; parameters: number; network: Network; positionOf: (position: number) => Float32Array };
  tokenizers: Tokenizers;
  language: any;
  codes: string[];
  kept: any; // the last sentence and pass without gates
}
type Gate = { closed: number[]; outputs: Float32Array | null } | null;
type Gates = ((kind: Kind, layer: number, row: number) => Gate) & {
  isOfEncoder?: boolean;
};
