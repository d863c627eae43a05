"""Gradio's own widgets in the viewer's colours and fonts."""

from __future__ import annotations

import gradio as gr

FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
# As text_md of Gradio, where the browser's letters have 16 px.
LETTERS = gr.themes.Size(
    ".5625rem", ".625rem", ".75rem", ".875rem", "1rem", "1.375rem", "1.625rem", name="letters"
)

# The custom properties change with the theme.
COLOURS = {
    f"{name}{mode}": value
    for mode in ("", "_dark")
    for name, value in {
        "body_background_fill": "var(--hl-background)",
        "body_text_color": "var(--hl-ink)",
        "body_text_color_subdued": "var(--hl-soft)",
        "block_background_fill": "transparent",
        "block_border_width": "0px",
        "block_label_text_color": "var(--hl-soft)",
        "block_title_text_color": "var(--hl-ink)",
        "background_fill_primary": "var(--hl-panel)",
        "background_fill_secondary": "var(--hl-raised)",
        "border_color_primary": "var(--hl-line)",
        "border_color_accent": "var(--hl-accent)",
        "color_accent_soft": "var(--hl-raised)",
        "slider_color": "var(--hl-accent)",
        "input_background_fill": "var(--hl-panel)",
        "input_border_color_focus": "var(--hl-accent)",
        "input_border_width": "1px",
        "input_placeholder_color": "var(--hl-soft)",
        "button_primary_background_fill": "var(--hl-accent)",
        "button_primary_background_fill_hover": "var(--hl-accent)",
        "button_primary_text_color": "var(--hl-on-accent)",
        "button_primary_border_color": "var(--hl-accent)",
        "button_secondary_background_fill": "var(--hl-panel)",
        "button_secondary_background_fill_hover": "var(--hl-raised)",
        "button_secondary_text_color": "var(--hl-ink)",
        "button_secondary_border_color": "var(--hl-line)",
    }.items()
}


def theme() -> gr.themes.Base:
    """Return the theme of the page; nothing of it is loaded from elsewhere."""
    base = gr.themes.Base(text_size=LETTERS, font=FONTS, font_mono=["ui-monospace", "monospace"])
    # Gradio animates every property of a button, also its width: after a resize its text was cut for 0.2 s.
    return base.set(**COLOURS, button_transition="none")
