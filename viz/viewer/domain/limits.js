// The numbers that Python decides: viz/viewer/__init__.py writes them here in each script.

// Limits of requests, links and the engine, from viz/limits.py.
/** @type {{ [name: string]: number }} */
export const LIMITS = {};

// From which value on something is said of a translation, from model/analysis/thresholds.py.
/** @type {{ [name: string]: number }} */
export const THRESHOLDS = {};
