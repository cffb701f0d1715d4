"""The engine `vllm`: vLLM in this process, its KV events, connector, adapters and start."""
