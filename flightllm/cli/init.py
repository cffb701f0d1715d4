"""`flightllm init`: choose a model, ask it one question, and write a configuration."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import click

from flightllm.cli.new_config import config_text, local_model
from flightllm.common.atomic_files import write_atomically
from flightllm.common.command_line import printable
from flightllm.config import ENGINES, EngineConfig
from flightllm.engines import check_engine, create_engine
from flightllm.engines.offers import Offer, find_ollama, offers, ollama_address, own_address
from flightllm.engines.providers import NAMES, OLLAMA, PROVIDERS, UNKNOWN, Provider, named, provider_at
from flightllm.engines.secrets import holds_secret, shown_address
from flightllm.errors import ConfigError, EngineError, FlightLLMError, install_line

_ENGINES = [name for name, kind in ENGINES.items() if kind.of_one_model]
_SHOWN = 15
"""The most models of an endpoint in the list; users can name any other model."""
_NO_TEXT = re.compile(
    r"embed|whisper|tts|dall-e|image|moderation|realtime|audio|transcri|sora|rerank|ocr|davinci|babbage|guard|veo|imagen",
    re.IGNORECASE,
)
"""Parts of the names of models that cannot answer a question."""
_VARIABLE = re.compile(r"[A-Z0-9_]*")
_LINE = "; the line to change is [engine] "
_ADDRESS = {"azure": "Address of your Azure resource, https://….openai.azure.com"}
"""The prompt for the address of a provider without a public address."""
_DEMO = "the demonstration model, which knows the questions of `flightllm demo` and nearly nothing else"
_FAKE = "made-up answers without a model, to try what queries and their results look like"
_PACKAGES = {"openai": "openai", "local": "torch"}
"""Extras of engines, each with a package that only the extra installs."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that describe the model; an omitted option is empty."""

    engine: str = ""
    provider: str = ""
    base_url: str = ""
    key_env: str = ""
    model: str = ""

    @property
    def engine_kind(self) -> str:
        """Return the kind of engine that the options imply, or "" if they imply no engine."""
        return self.engine or ("openai" if self.provider or self.base_url or self.key_env else "")


@dataclass(slots=True)
class Consent:
    """The user's consent to send a key. The command asks once, before the first request with the key."""

    asks: bool
    given: bool = False

    def get(self, endpoint: EngineConfig) -> None:
        """Ask whether an endpoint can get the key; without a terminal, say that the endpoint gets it.

        Raises:
            ConfigError: the user says no.
        """
        key = str(endpoint.options.get("api_key", "")).removeprefix("env:")
        if self.given or not key:
            return
        place = _place(endpoint)
        if not self.asks:
            click.echo(f"The key in {key} goes to {place}.")
        elif not click.confirm(f"\nSend the key in {key} to {place}?"):
            raise ConfigError("nothing is sent or written; --base-url names another address, and --key-env another key")
        self.given = True


def _place(endpoint: EngineConfig) -> str:
    """Return the address of the endpoint without secrets, to show it."""
    from flightllm.engines.openai.options import read_openai_options

    return shown_address(read_openai_options(endpoint.options).address)


@click.command()
@click.option("--engine", type=click.Choice(_ENGINES), help="Inference engine.")
@click.option("--provider", type=click.Choice(NAMES), help="Provider of the model, for the engine openai.")
@click.option("--base-url", metavar="URL", help="Address of an endpoint of your own, up to /v1.")
@click.option("--key-env", metavar="NAME", help="Environment variable that holds the key, if not the provider's own.")
@click.option("--model", help="Model's name; for local and vllm a folder, a GGUF file or a hub name.")
@click.option("--output", "-o", type=click.Path(path_type=Path), default=Path("flightllm.toml"), show_default=True,
              metavar="FILE", help="Configuration to write.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--no-check", is_flag=True, help="Write without asking the model anything.")
@click.option("--yes", is_flag=True, help="Ask no questions: use only the options, and the key that they name.")
def init(  # noqa: PLR0913 - one argument for each option
    engine: str | None,
    provider: str | None,
    base_url: str | None,
    key_env: str | None,
    model: str | None,
    output: Path,
    *,
    force: bool,
    no_check: bool,
    yes: bool,
) -> None:
    """Choose a model, and write a configuration for it.

    The command looks for Ollama and for keys in the environment, and asks which model to take. It sends the model one
    short question, and reports the cost. The file gets the name of the key's variable, never the key. Without a key,
    take Ollama, the demonstration model, or the engine fake, which makes up answers.

    \b
    flightllm init
    flightllm init --provider anthropic --model claude-haiku-4-5 --yes
    flightllm init --provider ollama --model qwen3:4b --yes
    flightllm init --base-url http://127.0.0.1:8000/v1 --yes
    flightllm init --engine fake --yes
    """
    wanted = Wanted(engine or "", provider or "", base_url or "", key_env or "", model or "")
    if wanted.engine_kind != "openai" and (provider or base_url or key_env):
        raise click.UsageError("--provider, --base-url and --key-env are for the engine openai.")
    if not str(output).isprintable():
        raise click.UsageError("--output: the name has a character that cannot be printed.")
    if not output.parent.is_dir():
        raise ConfigError(
            f"cannot write {output}: make the folder {output.parent} first, or name another file with --output"
        )
    asks = not yes
    if asks and not sys.stdin.isatty():
        raise click.UsageError(_what_to_write(offers()))
    if output.exists() and not force and not (asks and click.confirm(f"{output} exists. Overwrite it?")):
        raise ConfigError(f"{output} exists: overwrite it with --force, or name another file with --output")
    consent = Consent(asks)
    found = _engine(wanted, consent)
    checked = "not checked" if no_check else _check(found, consent)
    _write(output, found, checked)
    click.echo(f"\nNext, with a file of yours:\n  flightllm serve --config {_quoted(output)} tickets.csv")


def _what_to_write(found: Sequence[Offer]) -> str:
    """Return the error text for a run without a terminal: commands to use instead."""
    lines = []
    for one in found:
        model = shlex.quote(printable(one.models[0])) if one.models else "NAME"
        address = f" --base-url {shlex.quote(one.base_url)}" if one.base_url and one.provider == "ollama" else ""
        lines.append((f"--provider {one.provider}{address} --model {model}", f"{one.why}{_to_install('openai')}"))
    lines += [("--engine local --model demo", f"{_DEMO}{_to_install('local')}"), ("--engine fake", _FAKE)]
    told = "\n".join(f"  flightllm init --yes {options}\n      {why}" for options, why in lines)
    return f"there is no terminal to ask on. Say which model to take and --yes, for example:\n{told}{_not_found(found)}"


def _to_install(extra: str) -> str:
    """Return how to install an extra, or "" if the extra is installed."""
    return "" if find_spec(_PACKAGES[extra]) else f"; first run: {install_line(extra)}"


def _not_found(found: Sequence[Offer]) -> str:
    """Return how to get Ollama, and how to set a key for a hosted model: whichever is missing."""
    lines = []
    if all(one.provider != OLLAMA.name for one in found):
        address = printable(ollama_address(os.environ.get("OLLAMA_HOST", "")))
        lines += [
            f"Ollama does not answer at {address}. It runs models on this machine, without a key. Install it from",
            "https://ollama.com, get a model, and run this command again:",
            "  ollama pull qwen3:4b",
        ]
    if all(one.provider == OLLAMA.name for one in found):
        first, *others = (one.key_env for one in PROVIDERS if one.key_env)
        lines += [
            "No key of a hosted model is set. Set one, and run this command again:",
            f"  export {first}=…",
            f"  (or {', '.join(others)})",
        ]
    return "\n".join(("", "", *lines)) if lines else ""


def _engine(wanted: Wanted, consent: Consent) -> EngineConfig:
    """Return the engine that the options name, or that the user chooses."""
    models: tuple[str, ...] = ()
    if not wanted.engine_kind:
        if not consent.asks:
            raise click.UsageError("--yes asks nothing: say which model with --provider or --engine, and --model.")
        wanted, models = _asked()
    elif wanted.provider == "ollama" and not wanted.base_url:
        ollama = find_ollama()
        if ollama is not None:
            wanted, models = replace(wanted, base_url=ollama.base_url), ollama.models
    if wanted.engine_kind != "openai":
        model = wanted.model or ("demo" if wanted.engine_kind in {"local", "fake"} else "")
        if not model:
            model = _text("Model (a folder, a GGUF file or a hub name OWNER/NAME)", "--model", asks=consent.asks)
        found = EngineConfig(wanted.engine_kind, local_model(model))
        check_engine(found)
        return found
    return _endpoint(wanted, models, consent)


def _asked() -> tuple[Wanted, tuple[str, ...]]:
    """Ask for the provider or the model; return the user's choice, and the models that are already known."""
    found = offers()
    click.echo("Choose a provider or a model:")
    remote, local = _to_install("openai"), "" if _own_engine() == "vllm" else _to_install("local")
    listed = [f"{one.provider}: {one.why}{_some(one.models)}{remote}" for one in found]
    listed += [
        f"another endpoint that speaks OpenAI's protocol{remote}",
        f"a model on this machine: a folder, or a GGUF file{local}",
        f"a model of the Hugging Face hub, which is downloaded{local}",
        f"{_DEMO}{_to_install('local')}",
        _FAKE,
    ]
    for number, words in enumerate(listed, 1):
        click.echo(f"  {number}  {words}")
    if missing := _not_found(found):
        click.echo(f"{missing.removeprefix(chr(10))}\n")
    number = click.prompt("Number", type=click.IntRange(1, len(listed)), default=1 if found else None)
    if number <= len(found):
        one = found[number - 1]
        if one.provider != "ollama":  # the address of a provider with a key follows later, as for `--provider`
            return Wanted("openai", one.provider), ()
        return Wanted("openai", one.provider, one.base_url), one.models
    match number - len(found):
        case 1:
            address = click.prompt("Address, up to /v1, such as http://127.0.0.1:8000/v1")
            key = click.prompt(
                "Environment variable with its key; empty for no key",
                default="",
                show_default=False,
            )
            return Wanted("openai", base_url=address, key_env=key), ()
        case 2:
            return Wanted(_own_engine(), model=click.prompt("Folder or file")), ()
        case 3:
            return Wanted(_own_engine(), model=click.prompt("Name on the hub, OWNER/NAME")), ()
        case 4:
            return Wanted("local", model="demo"), ()
        case _:
            return Wanted("fake", model="demo"), ()


def _some(models: Sequence[str]) -> str:
    shown = printable(", ".join(models[:3]))
    return f", with {shown}{' and more' if len(models) > 3 else ''}" if models else ""


def _own_engine() -> str:
    """Return the engine for a model on this machine: vLLM if it is installed and there is a GPU."""
    return "vllm" if find_spec("vllm") and shutil.which("nvidia-smi") else "local"


def _text(what: str, option: str, *, asks: bool) -> str:
    if not asks:
        raise click.UsageError(f"{option} is missing.")
    return str(click.prompt(what))


def _endpoint(wanted: Wanted, models: Sequence[str], consent: Consent) -> EngineConfig:
    """Return an endpoint with its model; without `--model`, ask the endpoint for its models."""
    wanted = _with_address(wanted)
    provider = named(wanted.provider) or provider_at(wanted.base_url)
    base_url = wanted.base_url
    if not base_url and not provider.base_url:
        base_url = _text(_ADDRESS.get(provider.name, "Address, up to /v1"), "--base-url", asks=consent.asks)
    options: dict[str, object] = {"provider": provider.name} if wanted.provider else {}
    if holds_secret("base_url", base_url):
        raise ConfigError(
            f"the address {shown_address(base_url)} contains a password or key, which the file would show:"
            " remove the secret, and name a variable for the key with --key-env"
        )
    if base_url:
        options["base_url"] = base_url
    options |= _key(wanted, provider)
    found = EngineConfig("openai", wanted.model or "any model", options=MappingProxyType(options))
    check_engine(found)  # checks that the key exists and the address is valid
    if not consent.asks:
        consent.get(found)
    return found if wanted.model else replace(found, model=_model(found, models, consent))


def _key(wanted: Wanted, provider: Provider) -> dict[str, object]:
    """Return the option for the key; an endpoint without a key must not get OpenAI's key."""
    key = wanted.key_env or provider.key_env
    if key not in os.environ and not _VARIABLE.fullmatch(key):  # can be the key itself, so the error must not show it
        raise click.UsageError("--key-env takes the name of an environment variable, never the key itself.")
    return {"api_key": f"env:{key}"} if key else {"api_key_env": ""}


def _with_address(wanted: Wanted) -> Wanted:
    """Add the endpoint that gets the key: `--base-url`, `--provider`, or else the provider of the key.

    The environment can set a provider's address, as for the provider's own programs.

    Raises:
        UsageError: the owner of the key in `--key-env` is unknown, or is another provider.
    """
    if wanted.base_url:
        return wanted
    owner = next((one for one in PROVIDERS if one.key_env and one.key_env == wanted.key_env), UNKNOWN)
    if wanted.key_env and not wanted.provider and owner is UNKNOWN:
        raise click.UsageError(f"--key-env {wanted.key_env}: say who gets the key, with --provider or --base-url.")
    provider = named(wanted.provider) or named(owner.name) or named("openai") or UNKNOWN
    if owner not in {UNKNOWN, provider}:
        raise click.UsageError(
            f"{wanted.key_env} is the key of {owner.name}, and --provider names {provider.name}:"
            " leave out one of them, or name the address with --base-url."
        )
    address = own_address(provider.name)
    if provider.name == "openai" and address:  # another endpoint that uses OpenAI's variables
        return replace(wanted, provider="", base_url=address, key_env=wanted.key_env or provider.key_env)
    return replace(wanted, provider=provider.name, base_url=address)


def _model(endpoint: EngineConfig, models: Sequence[str], consent: Consent) -> str:
    """Return the endpoint's only model, or the model that the user chooses."""
    if not models:
        consent.get(endpoint)
    names = [name for name in models or _listed(endpoint) if name.isprintable() and not _NO_TEXT.search(name)]
    if len(names) == 1:
        return names[0]
    if not consent.asks:
        shown = f"; there are {', '.join(names[:_SHOWN])}" if names else ""
        raise click.UsageError(f"--model is missing{shown}.")
    prices = _prices(endpoint, names)
    names.sort(key=lambda name: sum(prices.get(name, (1e9,))))
    click.echo(f"\nWhich model?{' The cheapest come first; prices are dollars per million tokens.' if prices else ''}")
    width = max(map(len, names[:_SHOWN]), default=0)
    for number, name in enumerate(names[:_SHOWN], 1):
        price = prices.get(name)
        money = f"   ${price[0]:g} for prompts, ${price[1]:g} for answers" if price else ""
        click.echo(f"  {number:>2}  {name:<{width}}{money}".rstrip())
    if len(names) > _SHOWN:
        click.echo(f"      and {len(names) - _SHOWN} more")
    said = str(click.prompt("Number or name" if names else "Name of the model")).strip()
    return names[int(said) - 1] if said.isdecimal() and 0 < int(said) <= min(len(names), _SHOWN) else said


def _listed(endpoint: EngineConfig) -> list[str]:
    from flightllm.engines.openai.engine import create

    with _told(endpoint), closing(create(endpoint)) as engine:
        return engine.models()


def _prices(endpoint: EngineConfig, names: Sequence[str]) -> Mapping[str, tuple[float, float]]:
    """Return the known prices of models as (for prompts, for answers), in dollars per million tokens."""
    from flightllm.engines.prices import prices_of

    found = {name: prices_of(replace(endpoint, model=name)) for name in names}
    return {name: (one.input, one.output) for name, one in found.items() if one is not None}


def _check(found: EngineConfig, consent: Consent) -> str:
    """Ask the model one question, and return the result as a comment for the file.

    Raises:
        FlightLLMError: the model does not answer, and the user does not want the file.
    """
    consent.get(found)
    question = f"\nAsk {found.model} one short question, of about 50 tokens?"
    if consent.asks and not click.confirm(question, default=True):
        return "not checked"
    try:
        return _tried(found)
    except FlightLLMError as error:
        if not consent.asks:
            raise EngineError(f"{error}. Nothing is written; --no-check writes without asking") from error
        click.echo(f"error: {printable(str(error))}", err=True)
        if click.confirm("Write the configuration anyway?"):
            return "did not answer yet"
        raise EngineError("nothing is written") from error


def _tried(found: EngineConfig) -> str:
    from flightllm.engines.prices import prices_of
    from flightllm.engines.trial import QUESTION, try_out
    from flightllm.llm.cost import Costs

    with _told(found), closing(create_engine(found)) as engine:
        where, answer = try_out(engine)
    if answer.text is None:
        raise EngineError(answer.error or f"{where}, but gave no answer")
    counts = {
        "calls": 1,
        **{
            key: getattr(answer, key)
            for key in ("prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens")
        },
    }
    cost = Costs(prices_of(found)).counted(counts)
    spent = f"1 call, {answer.prompt_tokens:,} tokens of prompt and {answer.completion_tokens:,} of answer"
    click.echo(f"{where}. It was asked {QUESTION.prompt!r} and said {answer.text!r}.")
    click.echo(f"That cost {spent}{'' if cost is None else f', ${cost:.6f}'}.")
    return "answered when this file was made"


def _write(output: Path, found: EngineConfig, checked: str) -> None:
    text = config_text(found, _quoted(output), checked)
    try:
        write_atomically(output, text.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}") from error
    click.echo(f"{output} is written.")


def _quoted(output: Path) -> str:
    return shlex.quote(str(output))


@contextmanager
def _told(endpoint: EngineConfig) -> Iterator[None]:
    """Replace the advice of an error: name an option of this command, because the file does not exist yet."""
    try:
        yield
    except FlightLLMError as error:
        said, found, line = str(error).partition(_LINE)
        if not found:
            raise
        key = str(endpoint.options.get("api_key", "")).removeprefix("env:")
        if line.startswith("api_key"):
            change = (
                f"set {key} to a valid key, or name another variable with --key-env"
                if key
                else "name the key's variable with --key-env"
            )
        elif line.startswith("model"):
            change = "name another model with --model"
        else:
            change = "name another address with --base-url"
        raise EngineError(f"{said}; {change}") from error
