"""What is no test here: scripts that run in the environments of eval tools (write_tool_files.py)."""

collect_ignore_glob = ["tool_writers/write_*.py"]
