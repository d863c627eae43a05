"""Serves the page: requests, their queue, limits and the start and stop of the server."""
