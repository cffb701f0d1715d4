"""`flightllm init`: each way to choose a model ends in a configuration that works, or in nothing written."""

import os
import pty
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flightllm.cli import main
from flightllm.cli.new_config import config_text
from flightllm.config import Config, EngineConfig
from flightllm.engines.offers import find_ollama, offers, ollama_address
from flightllm.engines.providers import PROVIDERS
from flightllm.errors import ConfigError, install_line
from tests.cli.test_serve_check import CASES, behave
from tests.endpoints import Body, Endpoint, Reply, endpoint_of, refuse

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

KEY = "sk-secret-0123456789"


def answer(path: str, body: Body, number: int) -> Reply:
    """Say yes to every question; fail as the model's name says."""
    status, said, headers = behave(path, body, number)
    if status == 200:
        said["choices"][0]["message"]["content"] = "Yes"
    return status, said, headers


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Endpoint]:
    """Return an endpoint with two models, which is this machine's Ollama too; the test runs in a folder of its own."""
    addresses = ("OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT")
    for variable in [*(one.key_env for one in PROVIDERS if one.key_env), *addresses]:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with endpoint_of(answer) as opened:
        opened.models = [{"id": "small"}, {"id": "text-embedding-3-small"}]
        opened.pages["/api/tags"] = {
            "models": [
                {"name": "qwen3:4b", "details": {"family": "qwen3"}},
                {"name": "nomic-embed-text:latest", "details": {"family": "nomic-bert"}},
                {"name": "gemma3:1b", "details": {"family": "gemma3"}},
            ]
        }
        monkeypatch.setenv("OLLAMA_HOST", opened.url.removesuffix("/v1"))
        yield opened


def init(*arguments: str) -> Result:
    """Run `flightllm init` where there is no terminal."""
    return CliRunner().invoke(main, ["init", *arguments])


def typed(*lines: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run `flightllm init` on a terminal, where a person types lines; return the exit code, and all that is said."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, "".join(f"{line}\n" for line in lines).encode())
        done = subprocess.run([sys.executable, "-m", "flightllm", "init", *options], stdin=theirs, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60)  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stdout


def test_three_commands(endpoint: Endpoint, tmp_path: Path) -> None:
    """What is written asks the endpoint about a file; the only model is taken, and the call's tokens are told."""
    result = init("--base-url", endpoint.url, "--yes")
    assert result.exit_code == 0, result.output
    assert "and said 'Yes'" in result.output
    assert "That cost 1 call, 10 tokens of prompt and 2 of answer." in result.output
    assert "flightllm serve --config flightllm.toml tickets.csv" in result.output
    assert Config.load(Path("flightllm.toml")).engine.model == "small"
    (tmp_path / "tickets.csv").write_text("body\nMoney back!\n")
    asked = ["query", "--config", "flightllm.toml", "--open", "tickets.csv", "--format", "csv",
             "SELECT ai_filter('Refund? {body}', body) AS refund FROM tickets"]  # fmt: skip
    assert CliRunner().invoke(main, asked).stdout.split() == ['"refund"', "true"]
    assert any("Money back!" in str(body["messages"]) for body in endpoint.bodies)


def test_a_key_is_referred_to(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file names the variable of a key that the endpoint got, and never holds the key."""
    monkeypatch.setenv("MY_KEY", KEY)
    assert init("--base-url", endpoint.url, "--key-env", "MY_KEY", "--model", "any", "--yes").exit_code == 0
    assert endpoint.keys == [f"Bearer {KEY}"]
    text = Path("flightllm.toml").read_text()
    assert KEY not in text
    assert tomllib.loads(text)["engine"]["api_key"] == "env:MY_KEY"


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_written_where_the_model_fails(
    case: tuple[str, str, str], endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong key, host or model and an empty account are told with the option to change; `--no-check` writes."""
    model, _, said = case
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    url = "http://127.0.0.1:1/v1" if model == "host" else endpoint.url
    options = ["--provider", "openai", "--base-url", url, "--model", model, "--yes"]
    result = init(*options)
    assert result.exit_code == 1
    assert said in result.output
    option = {"wrong": "--model", "host": "--base-url"}.get(model, "set OPENAI_API_KEY to a valid key")
    assert option in result.output
    assert "Nothing is written; --no-check writes without asking" in result.output
    assert KEY not in result.output
    assert not Path("flightllm.toml").exists()
    assert init(*options, "--no-check").exit_code == 0
    assert Config.load(Path("flightllm.toml")).engine.options["base_url"] == url


def test_a_file_that_is_there_stays(endpoint: Endpoint) -> None:
    """Only `--force` writes over a file, and before that the model is asked nothing."""
    Path("flightllm.toml").write_text("# mine")
    result = init("--base-url", endpoint.url, "--model", "any", "--yes")
    assert (result.exit_code, result.output) == (
        1, "error: flightllm.toml exists: overwrite it with --force, or name another file with --output\n",
    )  # fmt: skip
    assert Path("flightllm.toml").read_text() == "# mine"
    assert endpoint.bodies == []
    assert init("--base-url", endpoint.url, "--model", "any", "--yes", "--force").exit_code == 0
    assert Config.load(Path("flightllm.toml")).engine.model == "any"


@pytest.mark.slow
def test_a_missing_folder_is_told_first(endpoint: Endpoint) -> None:
    """A configuration for a folder that is not there is refused before a person or a model is asked anything."""
    result = init("--base-url", endpoint.url, "--model", "any", "--yes", "--output", "nowhere/f.toml")
    said = "error: cannot write nowhere/f.toml: make the folder nowhere first, or name another file with --output\n"
    assert (result.exit_code, result.output) == (1, said)
    assert typed(options=("--output", "nowhere/f.toml")) == (1, said)
    assert endpoint.bodies == []


@pytest.mark.slow
def test_without_a_key(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key the choice of models ends with the line to write for one, and with a key it does not."""
    lines = "Set one, and run this command again:\n  export OPENAI_API_KEY=…\n  (or AZURE_OPENAI_API_KEY, TOGETHER"
    assert lines in init().output
    code, said = typed("1", "2", "n")
    assert code == 0, said
    assert endpoint.bodies == []
    menu, _, rest = said.partition("Choose a provider or a model:")[2].partition("Number")
    assert lines in menu
    assert "Ollama does not answer" not in menu
    assert lines not in rest
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    assert lines not in init().output


def test_nothing_is_there(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ollama, a key and PyTorch, the error says how to get each, and the way that needs nothing works."""
    del endpoint
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "torch", None)
    output = init().output
    assert "Ollama does not answer at http://127.0.0.1:1." in output
    assert "  ollama pull qwen3:4b\n" in output
    assert f"; first run: {install_line('local')}\n" in output
    assert init("--yes", "--engine", "fake").exit_code == 0
    assert Config.load(Path("flightllm.toml")).engine.kind == "fake"


@pytest.mark.slow
def test_a_missing_extra_names_other_ways(endpoint: Endpoint, tmp_path: Path) -> None:
    """Without PyTorch, `init --engine local` and `query` say what to install, and what to do instead."""
    (tmp_path / "packages" / "torch").mkdir(parents=True)
    (tmp_path / "packages" / "torch" / "__init__.py").write_text("raise ImportError('not installed')")
    (tmp_path / "tickets.csv").write_text("body\nMoney back!\n")
    path = os.pathsep.join([str(tmp_path / "packages"), *filter(None, [os.environ.get("PYTHONPATH")])])
    for arguments in (
        ["init", "--engine", "local", "--yes"],
        ["query", "--open", "tickets.csv", "SELECT ai_filter('Refund? {body}', body) FROM tickets"],
    ):
        done = subprocess.run([sys.executable, "-m", "flightllm", *arguments], env={**os.environ, "PYTHONPATH": path},
                              capture_output=True, text=True, check=False, timeout=60)  # fmt: skip
        assert done.returncode == 1
        assert (
            "needs the extra 'local': pip install uv && uv pip install --torch-backend cpu 'flightllm[local]'"
            in done.stderr
        )
        assert "`flightllm init` finds Ollama and API keys; `flightllm init --engine fake --yes` makes" in done.stderr
    assert endpoint.bodies == []


@pytest.mark.slow
def test_choose_made_up_answers(endpoint: Endpoint) -> None:
    """The menu ends with the demonstration model and the engine fake; the last number takes the latter."""
    code, said = typed("6", "n")
    assert code == 0, said
    assert "5  the demonstration model" in said
    assert "6  made-up answers without a model" in said
    assert Config.load(Path("flightllm.toml")).engine.kind == "fake"
    assert endpoint.bodies == []


def test_without_a_terminal(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal and `--yes` the error says what to write for each model that was found."""
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    result = init()
    assert result.exit_code == 2
    assert "flightllm init --yes --provider mistral --model NAME\n      MISTRAL_API_KEY is set" in result.output
    ways = [
        f"--provider ollama --base-url {endpoint.url} --model qwen3:4b",
        "--provider mistral --model NAME",
        "--engine local --model demo",
        "--engine fake",
    ]
    found = [result.output.index(f"flightllm init --yes {way}\n") for way in ways]
    assert found == sorted(found)
    assert KEY not in result.output
    assert endpoint.bodies == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--yes",), "--yes asks nothing: say which model with --provider or --engine"),
        (("--engine", "local", "--key-env", "KEY", "--yes"), "--key-env are for the engine openai"),
        (("--engine", "vllm", "--yes"), "--model is missing"),
        (("--provider", "ollama", "--yes"), "--model is missing; there are qwen3:4b, gemma3:1b"),
        (("--provider", "groq", "--model", "x", "--yes"), "set the environment variable GROQ_API_KEY"),
        (("--provider", "azure", "--model", "x", "--yes"), "--base-url is missing"),
        (("--engine", "local", "--model", "nowhere.gguf", "--yes"), "there is no file 'nowhere.gguf'"),
        (
            ("--base-url", "nowhere", "--model", "x", "--yes"),
            "base_url: expected http(s)://HOST:PORT/v1, got 'nowhere'",
        ),
    ],
)
def test_options_that_do_not_do(endpoint: Endpoint, arguments: tuple[str, ...], said: str) -> None:
    """What is missing or wrong is told before anything is asked or written."""
    result = init(*arguments)
    assert result.exit_code in {1, 2}
    assert said in result.output
    assert endpoint.bodies == []
    assert not Path("flightllm.toml").exists()


@pytest.mark.slow
def test_choose_ollama(endpoint: Endpoint) -> None:
    """A person chooses Ollama and one of its models by numbers; models that only embed are not offered."""
    code, said = typed("1", "2", "y", options=("--output", "my own.toml"))
    assert code == 0, said
    assert "1  ollama: Ollama runs on this machine, with qwen3:4b, gemma3:1b\n" in said
    assert "nomic" not in said
    assert "flightllm serve --config 'my own.toml' tickets.csv" in said
    engine = Config.load(Path("my own.toml")).engine
    assert (engine.kind, engine.model) == ("openai", "gemma3:1b")
    assert dict(engine.options) == {"provider": "ollama", "base_url": endpoint.url, "api_key_env": ""}
    assert [body["model"] for body in endpoint.bodies] == ["gemma3:1b"]


@pytest.mark.slow
def test_choose_by_price(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of a provider are listed by price; any can be named, and after a failed check a no writes nothing."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint.models = [{"id": name} for name in ("gpt-4o", "gpt-4o-mini", "whisper-1", "my-tune")]
    options = ("--provider", "openai", "--base-url", endpoint.url)
    code, said = typed("y", "wrong", "y", "n", options=options)
    assert code == 1
    assert "1  gpt-4o-mini   $0.15 for prompts, $0.6 for answers\n   2  gpt-4o        $2.5" in said
    assert "3  my-tune\n" in said
    assert "whisper" not in said.partition("Number or name")[0]
    assert "has no model 'wrong' (HTTP 404)" in said
    assert not Path("flightllm.toml").exists()


@pytest.mark.slow
def test_answers_on_a_terminal(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A yes writes over a file, and a no to the question writes without asking the model; hosted calls have a price."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    options = ("--provider", "openai", "--base-url", endpoint.url, "--model", "gpt-4o-mini")
    assert "10 tokens of prompt and 2 of answer, $0.000002." in init(*options, "--yes").output
    code, said = typed("y", "y", "n", options=options)
    assert code == 0
    assert "flightllm.toml exists. Overwrite it?" in said
    assert "# not checked" in Path("flightllm.toml").read_text()
    assert len(endpoint.bodies) == 1


def test_choose_an_endpoint(endpoint: Endpoint) -> None:
    """A person names an address, whose only model is taken; without a key none is written."""
    code, said = typed("2", endpoint.url, "", "y")
    assert code == 0, said
    assert dict(Config.load(Path("flightllm.toml")).engine.options) == {"base_url": endpoint.url, "api_key_env": ""}


def test_an_address_of_the_environment(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of OpenAI goes where OPENAI_BASE_URL says: the message shows the address, and the file names it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    result = init("--yes", "--provider", "openai", "--model", "x", "--no-check")
    assert result.exit_code == 0, result.output
    assert f"The key in OPENAI_API_KEY goes to {endpoint.url}.\n" in result.output
    options = {"base_url": endpoint.url, "api_key": "env:OPENAI_API_KEY"}
    assert dict(Config.load(Path("flightllm.toml")).engine.options) == options
    assert (endpoint.got, endpoint.bodies) == ([], [])


@pytest.mark.parametrize(
    ("key_env", "provider", "host"),
    [
        ("ANTHROPIC_API_KEY", "anthropic", "https://api.anthropic.com/v1"),
        ("OPENAI_API_KEY", "openai", "https://api.openai.com/v1"),
    ],
)
def test_a_key_names_its_provider(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, key_env: str, provider: str, host: str
) -> None:
    """A provider's own key goes to that provider alone."""
    del endpoint
    monkeypatch.setenv(key_env, KEY)
    result = init("--yes", "--key-env", key_env, "--model", "x", "--no-check")
    assert f"The key in {key_env} goes to {host}.\n" in result.output
    assert Config.load(Path("flightllm.toml")).engine.options["provider"] == provider


def test_a_key_without_a_receiver(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of nobody known, a key of another provider, and a provider without an address are refused."""
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    for options, said in [
        (("--key-env", "MY_KEY"), "--key-env MY_KEY: say who gets the key, with --provider or --base-url"),
        (("--key-env", "GROQ_API_KEY", "--provider", "openai"), "GROQ_API_KEY is the key of groq"),
        (("--provider", "vllm"), "--base-url is missing"),
    ]:
        result = init("--yes", "--model", "x", "--no-check", *options)
        assert result.exit_code == 2
        assert said in result.output
    assert not Path("flightllm.toml").exists()
    assert endpoint.got == []


def test_no_key_for_who_needs_none(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Ollama nor an endpoint for which no key is named gets the key of OpenAI, now or from the file."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for options in (("--provider", "ollama", "--model", "qwen3:4b"), ("--base-url", endpoint.url)):
        result = init("--yes", "--force", *options)
        assert result.exit_code == 0, result.output
        assert "OPENAI_API_KEY" not in result.output
    assert set(endpoint.keys) == {"Bearer none"}
    assert {key for _, key in endpoint.got} <= {None, "Bearer none"}
    assert 'api_key_env = ""' in Path("flightllm.toml").read_text()


def test_an_endpoint_wants_a_key(endpoint: Endpoint) -> None:
    """An endpoint that refuses a question without a key is told with the option that names a key."""
    endpoint.behave = lambda *_: refuse(401, "no key")
    result = init("--yes", "--base-url", endpoint.url, "--model", "x")
    assert "name the key's variable with --key-env" in result.output


@pytest.mark.slow
def test_a_key_needs_a_yes(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list and a question name the address; a no sends no key and writes nothing, a yes sends it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    code, said = typed("2", "n")
    assert code == 1
    assert f"2  openai: OPENAI_API_KEY is set; the key goes to {endpoint.url}\n" in said
    assert f"Send the key in OPENAI_API_KEY to {endpoint.url}?" in said
    assert "nothing is sent or written" in said
    assert [path for path, key in endpoint.got if key or path.endswith("/models")] == []
    assert not Path("flightllm.toml").exists()
    code, said = typed("2", "y", "y")
    assert code == 0, said
    assert said.count("Send the key") == 1
    assert endpoint.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    "where",
    [
        "u:hunter2@",
        pytest.param("?api_key=hunter2", marks=pytest.mark.slow),
        pytest.param("?sig=hunter2", marks=pytest.mark.slow),
    ],
)
def test_no_secret_in_an_address(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """An address with a secret, of an option or of the environment, is refused, and neither shown nor written."""
    address = endpoint.url.replace("//", f"//{where}") if "@" in where else f"{endpoint.url}{where}"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    given = init("--yes", "--base-url", address, "--model", "x", "--no-check")
    assert f"the address {endpoint.url} contains a password or key" in given.output
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    code, said = typed("2")
    assert code == 1
    for output in (said, given.output, init().output, init("--yes", "--provider", "openai", "--model", "x").output):
        assert "hunter2" not in output
        assert endpoint.url in output
    assert not Path("flightllm.toml").exists()
    assert [path for path, _ in endpoint.got if "models" in path] == []


def test_a_key_is_no_name(endpoint: Endpoint) -> None:
    """A key in place of its variable's name is refused, and neither shown nor written."""
    result = init("--yes", "--base-url", endpoint.url, "--key-env", KEY, "--model", "x", "--no-check")
    assert "--key-env takes the name of an environment variable" in result.output
    assert KEY not in result.output
    assert not Path("flightllm.toml").exists()


@pytest.mark.slow
def test_names_that_drive_a_terminal(endpoint: Endpoint) -> None:
    """Control characters in names of models and in answers of an endpoint do not reach the terminal."""
    endpoint.models = [{"id": name} for name in ("small", "red\x1b[31m", "other")]
    options = ("--base-url", endpoint.url)
    code, said = typed("1", "n", options=options)
    assert code == 0, said
    endpoint.behave = lambda *_: refuse(400, "no\x1b[31m such thing")
    code, failed = typed("1", "y", "n", options=("--force", *options))
    assert code == 1
    assert "such thing" in failed
    given = init("--force", "--yes", "--model", "small", *options)
    assert "such thing" in given.output
    endpoint.pages["/api/tags"] = {"models": [{"name": "blue\x1b[34m"}]}
    listed = init()
    assert "blue" in listed.output
    for output in (said, failed, given.output, listed.output, init("--yes", *options).output):
        assert "\x1b" not in output


@pytest.mark.parametrize("name", ["nl\n[log]\nlevel = 'debug'.toml", "red\x1b[31m.toml"])
def test_file_names_that_drive_a_terminal(endpoint: Endpoint, tmp_path: Path, name: str) -> None:
    """A name of a file that would end a comment in the file, or drive the terminal, is refused at once."""
    result = init("--yes", "--base-url", endpoint.url, "--model", "x", "--output", name)
    assert result.exit_code == 2
    assert "--output: the name has a character that cannot be printed" in result.output
    assert not [*tmp_path.glob("*.toml")]
    assert endpoint.bodies == []
    with pytest.raises(ConfigError, match="has a character that cannot be printed"):
        config_text(EngineConfig("fake"), name, "")


def test_what_to_run_next(endpoint: Endpoint) -> None:
    """The command that is shown names the file as a shell reads the name."""
    result = init("--yes", "--base-url", endpoint.url, "--model", "x", "--output", "$(a) b.toml")
    assert "flightllm serve --config '$(a) b.toml' tickets.csv" in result.output


def test_offers(endpoint: Endpoint) -> None:
    """Keys come after Ollama, in the order of the providers, with their own addresses; a missing Ollama is no offer."""
    nowhere = {"OLLAMA_HOST": "127.0.0.1:1"}
    assert offers(nowhere) == []
    found = offers({"GROQ_API_KEY": KEY, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://x/v1", **nowhere})
    assert [(one.provider, one.base_url) for one in found] == [("openai", "http://x/v1"), ("groq", "")]
    both = offers({"GROQ_API_KEY": KEY, "OLLAMA_HOST": endpoint.url.removesuffix("/v1")})
    assert [one.provider for one in both] == ["ollama", "groq"]
    pages: list[Body | bytes] = [{}, {"models": None}, {"models": ["a"]}, {"models": [{}]}, b"[" * 100_000]
    for page in pages:
        endpoint.pages["/api/tags"] = page
        assert find_ollama({"OLLAMA_HOST": endpoint.url.removesuffix("/v1")}) is None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104 - what people write
        (":8000", "http://127.0.0.1:8000"),
        ("gpu.lan:8000", "http://gpu.lan:8000"),
        ("[::]:8000", "http://[::1]:8000"),
        ("https://llm.example.com/ollama/", "https://llm.example.com:443/ollama"),
        ("host:nonsense", "http://127.0.0.1:11434"),
    ],
)
def test_ollama_address(host: str, address: str) -> None:
    """OLLAMA_HOST is read as Ollama's own programs do."""
    assert ollama_address(host) == address


@pytest.mark.parametrize("name", ['a "quoted" \\ name', "modèle 🚀", "a\nb"])
def test_names_in_toml(tmp_path: Path, name: str) -> None:
    """Any name of a model comes back from the file as it was."""
    path = tmp_path / "c.toml"
    path.write_text(config_text(EngineConfig("openai", name), "c.toml", "not checked"), encoding="utf-8")
    assert Config.load(path).engine == EngineConfig("openai", name)


@pytest.mark.parametrize("name", ["a\x7f", "a\udc80"])
def test_names_that_toml_does_not_hold(name: str) -> None:
    """A character that TOML or UTF-8 lacks is refused."""
    with pytest.raises(ConfigError, match="has a character that a configuration cannot hold"):
        config_text(EngineConfig("openai", name), "c.toml", "")


def test_the_demonstration_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded model is asked in this process, and a model's folder is written as an absolute path."""
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    from flightllm.common.package_data import demo_model

    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(demo_model())
    result = init("--engine", "local", "--model", "model", "--yes", "--output", "local.toml")
    assert result.exit_code == 0, result.output
    assert "1 call, 20 tokens of prompt" in result.output
    assert Config.load(Path("local.toml")).engine.model == str(tmp_path / "model")
