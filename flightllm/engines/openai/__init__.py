"""The engine `openai`: any endpoint with the OpenAI API, hosted or on this machine, and prices of hosted models."""
