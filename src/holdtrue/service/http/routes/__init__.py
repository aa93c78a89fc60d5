"""The routes of the service, one module a family."""
