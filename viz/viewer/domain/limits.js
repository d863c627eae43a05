// The numbers that Python decides: viz/viewer/__init__.py writes them here in each script.

// Limits of requests, links and the engine, from viz/limits.py.
export const LIMITS = {};

// From which value on something is said of a translation, from model/analysis/thresholds.py.
export const THRESHOLDS = {};
