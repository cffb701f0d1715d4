"""The engine `openai`: any endpoint that speaks the OpenAI API, hosted or on this machine."""
