"""The service over HTTP: what every request passes, what bodies and refusals are, and the routes under /v1."""
