"""Convert logs of inspect_ai and lm-evaluation-harness with every_eval_ever, and validate what Holdtrue writes."""
