// The requests that only a server answers; this engine answers all others.

export const SERVER_ONLY = [
  'contributions',
  'examples',
  'export',
  'intervene',
  'links',
  'portable',
  'removal',
  'score_split',
  'writing',
];
export const NEEDS_SERVER = 'This needs the page with a server: run “make app” and open the same link there.';
