// The limits of requests and links: those of viz/limits.py, which viz/viewer/__init__.py writes here in each page's script.

export const LIMITS = {};
