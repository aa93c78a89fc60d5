"""The Open Inference Protocol, version 2, under /v2."""
