"""Drawing: the payload, the linked viewer, the exported file, and figures for notebooks."""
