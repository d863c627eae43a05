// What Python decides: viz/viewer/__init__.py writes it here in each script.

// Limits of requests, links and the engine, from viz/limits.py.
/** @type {{ [name: string]: number }} */
export const LIMITS = {};

// From which value on something is said of a translation, from model/analysis/thresholds.py.
/** @type {{ [name: string]: number }} */
export const THRESHOLDS = {};

// Why a hypothesis of a beam search was kept or dropped, from model/decoding/beam_tree.py.
/** @type {{ [name: string]: string }} */
export const REASONS = {};
