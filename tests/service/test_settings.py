"""Settings: every value checked, every unknown name refused, no password shown."""

import dataclasses
import json
from pathlib import Path

import pytest

from holdtrue.errors import HoldtrueError, InvalidParameter, RequestError
from holdtrue.service.settings import ALGORITHMS, Issuer, Settings, from_text, read_settings, to_text

ISSUER = {
    "url": "https://login.example.org",
    "audience": "holdtrue",
    "algorithms": ["RS256"],
    "jwks": {"keys": []},
    "roles": {"data-team": "analyst"},
}

TOML = """
home = "service"
port = 9000
workers = 4
tick = 0.02
rate = "100/minute;10/second"
data = ["rows", "/srv/rows"]
hosts = ["data.example.org"]
secure_cookies = true

[issuer]
url = "https://login.example.org"
audience = "holdtrue"
algorithms = ["RS256", "ES256"]
jwks = "keys.json"
claim = "groups"
leeway = 10

[issuer.roles]
custodians = "owner"
scientists = "analyst"
"""


def test_a_file_is_read_whole_and_paths_start_in_its_folder(tmp_path):
    path = tmp_path / "holdtrue.toml"
    path.write_text(TOML, encoding="utf-8")
    settings = read_settings(path)
    assert settings.home == tmp_path / "service"
    assert settings.data == (tmp_path / "rows", Path("/srv/rows"))
    assert (settings.port, settings.workers, settings.tick) == (9000, 4, 0.02)
    assert settings.hosts == ("data.example.org",)
    assert settings.issuer.jwks == str(tmp_path / "keys.json")
    assert settings.issuer.roles == {"custodians": "owner", "scientists": "analyst"}


def test_what_the_command_line_says_comes_first_and_none_says_nothing(tmp_path):
    path = tmp_path / "holdtrue.toml"
    path.write_text(TOML, encoding="utf-8")
    settings = read_settings(path, port=1234, workers=None, home=tmp_path / "other")
    assert (settings.port, settings.workers, settings.home) == (1234, 4, tmp_path / "other")


def test_defaults_keep_to_this_machine(tmp_path):
    settings = Settings(home=tmp_path / "home")
    assert settings.host == "127.0.0.1"
    assert settings.workers == 1
    assert settings.data == (tmp_path,)
    assert set(settings.hosts) == {"localhost", "127.0.0.1", "[::1]"}
    assert settings.tick == 0.01
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1


@pytest.mark.parametrize("issuer", [None, ISSUER, ISSUER | {"jwks": "https://login.example.org/keys"}])
def test_settings_reach_a_worker_unchanged(tmp_path, issuer):
    settings = read_settings(home=tmp_path, ledger="postgresql://a:b@host/d", issuer=issuer, data=[tmp_path / "rows"])
    assert from_text(to_text(settings)) == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("home", 3),
        ("home", ""),
        ("ledger", "mysql://host/d"),
        ("ledger", "people.ledger"),
        ("ledger", 3),
        ("host", "a b"),
        ("host", ""),
        ("port", -1),
        ("port", 65_536),
        ("port", "8000"),
        ("port", True),
        ("workers", 0),
        ("workers", 2.0),
        ("workers", 1000),
        ("tick", -0.1),
        ("tick", float("nan")),
        ("tick", float("inf")),
        ("tick", "0.01"),
        ("tick", True),
        ("body_limit", 0),
        ("body_limit", 1 << 40),
        ("rate", "often"),
        ("rate", ""),
        ("rate", "0/minute"),
        ("rate", 600),
        ("data", "rows"),
        ("data", [3]),
        ("secure_cookies", 1),
        ("demo", "yes"),
        ("hosts", "localhost"),
        ("hosts", ["a/b"]),
        ("issuer", 3),
        ("issuer", []),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(tmp_path, name, value):
    with pytest.raises(InvalidParameter) as refused:
        read_settings(**({"home": tmp_path} | {name: value}))
    assert refused.value.parameter == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("algorithms", ["HS256"]),
        ("algorithms", ["RS256", "none"]),
        ("algorithms", ["None"]),
        ("algorithms", []),
        ("algorithms", "RS256"),
        ("jwks", "http://login.example.org/keys"),
        ("jwks", ""),
        ("jwks", 3),
        ("roles", {}),
        ("roles", {"everybody": "root"}),
        ("roles", ["owner"]),
        ("audience", ""),
        ("url", None),
        ("leeway", -1),
        ("leeway", 10_000),
        ("claim", ""),
    ],
)
def test_an_issuer_is_believed_only_within_limits(tmp_path, name, value):
    with pytest.raises(InvalidParameter) as refused:
        read_settings(home=tmp_path, issuer=ISSUER | {name: value})
    assert refused.value.parameter == f"issuer.{name}"


def test_no_algorithm_that_a_public_key_could_sign_with_is_known():
    assert not any(name.startswith("HS") or name.lower() == "none" for name in ALGORITHMS)


@pytest.mark.parametrize("missing", ["url", "audience", "algorithms", "jwks", "roles"])
def test_nothing_about_an_issuer_is_guessed(tmp_path, missing):
    told = {name: value for name, value in ISSUER.items() if name != missing}
    with pytest.raises(InvalidParameter, match=f"issuer.{missing}"):
        read_settings(home=tmp_path, issuer=told)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('home = "h"\nprot = 80', "prot"),
        ('home = "h"\n[issuer]\nurl = "u"\nsecret = "s"', "secret"),
        ('home = "h"\n[server]\nport = 80', "server"),
        ("home = ", "not TOML"),
        ("port = 80", "home"),
    ],
)
def test_a_name_that_no_setting_has_is_refused_by_that_name(tmp_path, text, said):
    path = tmp_path / "holdtrue.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RequestError, match=said):
        read_settings(path)


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"home = '\x00'"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, content):
    path = tmp_path / "holdtrue.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(HoldtrueError) as refused:
        read_settings(path)
    assert "\n" not in str(refused.value)


def test_a_password_is_neither_shown_nor_quoted(tmp_path):
    settings = Settings(home=tmp_path, ledger="postgresql://a:opensesame@host/d")
    assert "opensesame" not in repr(settings)
    with pytest.raises(InvalidParameter) as refused:
        Settings(home=tmp_path, ledger="mysql://a:opensesame@host/d")
    assert "opensesame" not in str(refused.value)


def test_an_issuer_of_json_is_an_issuer(tmp_path):
    told = read_settings(home=tmp_path, issuer=json.loads(json.dumps(ISSUER))).issuer
    assert isinstance(told, Issuer)
    assert told.algorithms == ("RS256",)
