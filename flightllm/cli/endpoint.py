"""Ask the endpoint of the `openai` engine whether it is there, without asking its model anything."""

from flightllm.config import EngineConfig
from flightllm.errors import EngineError, EngineUnavailableError, MissingExtraError

_SECONDS = 5.0
_NAMED = 5


def ask_endpoint(config: EngineConfig) -> tuple[str, str]:
    """Ask for the list of models; return what the endpoint says, and advice where it has no such model.

    Raises:
        ConfigError: an option is wrong, or there is no API key.
        EngineUnavailableError: nothing answers within seconds.
        EngineError: the API key is refused.
        MissingExtraError: the package `openai` is not installed.
    """
    from flightllm.llm.openai_options import OpenAIOptions
    from flightllm.llm.options import read_options
    from flightllm.llm.secrets import shown_address

    try:
        import openai
    except ImportError as error:
        raise MissingExtraError("the engine 'openai'", "openai") from error
    options = read_options(OpenAIOptions, "openai", config.options)
    place = shown_address(options.base_url)
    try:
        with openai.OpenAI(
            base_url=options.base_url, api_key=options.read_key(), timeout=min(options.timeout, _SECONDS), max_retries=0
        ) as client:
            listed = getattr(client.models.list(), "data", None) or []
    except openai.APIConnectionError as error:
        raise EngineUnavailableError(f"nothing answers at {place}: start it, or correct [engine] base_url") from error
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise EngineError(
            f"{place} refuses the API key: correct [engine] api_key_env or api_key_file, or what is there"
        ) from error
    except openai.APIStatusError as error:  # some endpoints answer prompts and have no such list
        return f"{place} answers, without a list of models (HTTP {error.status_code})", ""
    return _said(place, config.model, [str(model.id) for model in listed])


def _said(place: str, model: str, names: list[str]) -> tuple[str, str]:
    if model in names or not names:
        return f"{place} answers" + (f" and has the model {model}" if names else ", without a list of models"), ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"{place} answers",
        f"it does not list the model {model!r} but {', '.join(names[:_NAMED])}{more}; see --model",
    )
