"""The page that needs no server: its files, in which the model runs in the browser."""
