"""Configuration: what a file may say, what it means, and what a mistake is answered with."""

from pathlib import Path

import pytest

from flightllm.common.package_data import packaged_folder
from flightllm.config import Config, CsvFile, EngineConfig, LimitsConfig, ServerConfig
from flightllm.errors import ConfigError


def _write(folder: Path, text: str) -> Path:
    path = folder / "flightllm.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_shipped_default_file_says_the_defaults() -> None:
    """default.toml documents the defaults, so it must load to exactly them."""
    assert Config.load(packaged_folder("config") / "default.toml") == Config.load()


@pytest.mark.parametrize(
    ("name", "kind"), [("gpu", "vllm"), ("cluster", "cluster"), ("ray", "ray"), ("default", "local")]
)
def test_shipped_files_load_by_bare_name(name: str, kind: str) -> None:
    """`--config gpu` finds the shipped file wherever the package is installed."""
    assert Config.load(Path(name)).engine.kind == kind


def test_paths_start_at_the_files_folder(tmp_path: Path) -> None:
    """Relative tables, function folders and the data folder belong to the file, not to the working folder."""
    config = Config.load(
        _write(tmp_path, 'data_folder = "d"\n[tables]\nt = "t.csv"\n[functions]\nfolders = ["more", "/abs"]\n')
    )
    assert config.data_folder == tmp_path / "d"
    assert config.tables == {"t": tmp_path / "t.csv"}
    assert config.functions.folders == (tmp_path / "more", Path("/abs"))


def test_engine_keeps_unknown_keys_as_options(tmp_path: Path) -> None:
    """The engine kind checks its own keys; the file's other keys reach it untouched."""
    config = Config.load(_write(tmp_path, '[engine]\nkind = "openai"\nmodel = "m"\nbase_url = "u"\nretries = 3\n'))
    assert config.engine == EngineConfig(kind="openai", model="m", options={"base_url": "u", "retries": 3})


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    """Command-line values replace the file's, and another engine kind drops the options and prices of the first."""
    own = 'prompt_format = "plain"\nrepair = false\nreasoning = "low"\nprice_input = 1\nprice_output = 2.5\n'
    engine = f'[engine]\nkind = "openai"\nmodel = "m"\nbase_url = "u"\n{own}'
    path = _write(tmp_path, f'{engine}[tables]\na = "a"\nb = "b"\n')
    config = Config.load(path, listen="[::1]:0", engine="fake", model="n", tables={"b": Path("/b")})
    assert config.server.address == ("::1", 0)
    assert config.engine == EngineConfig("fake", "n", prompt_format="plain", reasoning="low", repair=False)
    assert config.tables == {"a": tmp_path / "a", "b": Path("/b")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[servr]\n", "unknown key 'servr' in the top level; valid keys: attached, auth, cache, data_folder"),
        (
            "[server]\nport = 1\n",
            "unknown key 'port' in [server]; valid keys: check_engine, client_authority, client_listen",
        ),
        ('[server]\nlisten = "somewhere"\n', "[server] listen: expected HOST:PORT, got 'somewhere'"),
        (
            '[server]\nlisten = "grpc://127.0.0.1:5000"\n',
            "[server] listen: expected HOST:PORT, got 'grpc://127.0.0.1:5000': write '127.0.0.1:5000', without grpc://",
        ),
        ('[server]\nlisten = "h:70000"\n', "[server] listen: expected HOST:PORT"),
        ('[server]\ntoken = "secret"\n', "[server] token: write env:NAME or file:PATH"),
        (
            '[engine]\nkind = "gpt"\n',
            "[engine] kind: expected one of local, vllm, openai, anthropic, cluster, ray, fake; got 'gpt'",
        ),
        ('[engine]\nprice_input = "2"\n', "[engine] price_input: expected a number, got '2'"),
        ('[engine]\nreasoning = "max"\n', "[engine] reasoning: expected one of off, low, medium, high; got 'max'"),
        ("[engine]\nreasoning = true\n", "[engine] reasoning: expected a string, got True"),
        ("[engine]\nprice_output = -1\n", "[engine] price_output: expected a number from 0 on, got -1.0"),
        ("[limits]\nsql_terms = 0\n", "[limits] sql_terms: expected at least 1, got 0"),
        ("[limits]\nsql_terms = true\n", "[limits] sql_terms: expected a whole number, got True"),
        ("[limits]\nresult_bytes = 1.5\n", "[limits] result_bytes: expected a whole number, got 1.5"),
        ('[limits]\nqueue_seconds = "1"\n', "[limits] queue_seconds: expected a number, got '1'"),
        ("[http]\nmetrics = 1\n", "[http] metrics: expected true or false, got 1"),
        ('[cache]\nenabled = "yes"\n', "[cache] enabled: expected true or false, got 'yes'"),
        ("[tables]\nt = {header = true}\n", "[tables] t: a table with options has a path"),
        ("[tables]\nt = 3\n", "[tables] t: expected a string, got 3"),
        ('[functions]\nfolders = "f"\n', "[functions] folders: expected a list of paths"),
        ('[log]\nlevel = "loud"\n', "[log] level: expected one of debug, info, warning, error; got 'loud'"),
        ("server = 3\n", "server: expected a section, written [server]"),
        ("[server\n", "not valid TOML"),
    ],
)
def test_mistakes_name_file_key_and_what_is_valid(tmp_path: Path, text: str, expected: str) -> None:
    """Every mistake is answered with the file, the key and what may stand there."""
    path = _write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value).startswith(f"{path}: {expected}")


def test_missing_file_is_a_config_error(tmp_path: Path) -> None:
    """A path that does not exist is answered in one line too."""
    with pytest.raises(ConfigError, match="cannot be read"):
        Config.load(tmp_path / "absent.toml")


def test_token_is_read_from_where_it_refers_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token comes from the environment or a file, and an empty one is refused rather than letting all in."""
    monkeypatch.setenv("SOME_TOKEN", "first-of-a-test")
    assert ServerConfig(token="env:SOME_TOKEN").read_token() == "first-of-a-test"
    secret = tmp_path / "token"
    secret.write_text("second-token-of-a-test\n", encoding="utf-8")
    assert ServerConfig(token=f"file:{secret}").read_token() == "second-token-of-a-test"
    assert ServerConfig().read_token() is None
    monkeypatch.setenv("SOME_TOKEN", " ")
    with pytest.raises(ConfigError, match="set the environment variable SOME_TOKEN"):
        ServerConfig(token="env:SOME_TOKEN").read_token()
    with pytest.raises(ConfigError, match="set the environment variable NOT_SET_AT_ALL"):
        ServerConfig(token="env:NOT_SET_AT_ALL").read_token()
    with pytest.raises(ConfigError, match="file cannot be read: No such file"):
        ServerConfig(token=f"file:{tmp_path / 'absent'}").read_token()
    secret.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        ServerConfig(token=f"file:{secret}").read_token()


def test_values_built_in_code_are_checked_too() -> None:
    """A limit set in code passes the same check as one in a file."""
    with pytest.raises(ConfigError, match="batch_bytes: expected at least 1"):
        LimitsConfig(batch_bytes=0)


def test_data_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FLIGHTLLM_HOME moves everything the server keeps."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path))
    assert Config.load().data_folder == tmp_path


def test_tables_with_options(tmp_path: Path) -> None:
    """A table of TOML has a path, and options of the files as texts."""
    given = (
        "path = 'd/', delimiter = ';', header = false, skip = 2, null = ['NA', '-'], types = {zip = 'text', n = 'int'}"
    )
    config = Config.load(_write(tmp_path, f"[tables]\na = {{{given}}}\nb = {{path = 's3://x/y/'}}\n"))
    options = (("delimiter", ";"), ("header", "false"), ("skip", "2"), ("null", "NA,-"), ("types", "zip=text,n=int"))
    assert config.tables == {"a": CsvFile(tmp_path / "d", options), "b": CsvFile("s3://x/y/", ())}


def test_aliases_of_models(tmp_path: Path) -> None:
    """Models can have further names; an alias of an alias, and a value that is not a name, are errors."""
    config = Config.load(_write(tmp_path, '[models]\naliases = { "gpt-4o" = "default", "gpt-4.1" = "default" }\n'))
    assert config.models.aliases == {"gpt-4o": "default", "gpt-4.1": "default"}
    for bad, message in (
        ('{ a = "b", b = "default" }', "'a' means 'b', which is an alias"),
        ("{ a = 5 }", r"\[models\] aliases.a: expected a string"),
        ('{ "" = "default" }', "empty name"),
        ('["a"]', "expected a section"),
    ):
        with pytest.raises(ConfigError, match=message):
            Config.load(_write(tmp_path, f"[models]\naliases = {bad}\n"))
