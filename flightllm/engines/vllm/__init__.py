"""The engine `vllm`: vLLM in this process, with KV events, a KV connector, LoRA adapters and a log of the start."""
