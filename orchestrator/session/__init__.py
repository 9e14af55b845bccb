"""One run of a driver: how it records its end, updates the page while it runs, and notifies a webhook."""
