"""Bearer tokens: real keys, and every way known to forge, stretch or misuse a token is refused alike."""

import asyncio
import base64
import hashlib
import hmac
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from holdtrue.errors import RequestError, Unauthorized
from holdtrue.service.database import open_database
from holdtrue.service.identity import Caller
from holdtrue.service.identity.api_keys import Keyring
from holdtrue.service.identity.oidc import Tokens
from holdtrue.service.settings import Issuer, Settings

URL, AUDIENCE = "https://login.example.org", "holdtrue"
DAY = 86_400
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
SMALL = rsa.generate_private_key(public_exponent=65_537, key_size=1024)  # noqa: S505 - to see it refused
CURVE = ec.generate_private_key(ec.SECP256R1())
EDWARDS = ed25519.Ed25519PrivateKey.generate()


def jwk(private, kid, **more):
    kind = {rsa.RSAPrivateKey: "RSA", ec.EllipticCurvePrivateKey: "EC", ed25519.Ed25519PrivateKey: "OKP"}
    name = next(name for each, name in kind.items() if isinstance(private, each))
    algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}[name]
    public = jwt.get_algorithm_by_name(algorithm).to_jwk(private.public_key(), as_dict=True)
    return public | {"kid": kid, "use": "sig"} | more


KEYS = {"keys": [jwk(RSA, "r1"), jwk(CURVE, "e1"), jwk(EDWARDS, "d1"), jwk(SMALL, "s1")]}


def issuer(**given):
    told = {
        "url": URL,
        "audience": AUDIENCE,
        "algorithms": ("RS256", "PS256", "ES256", "EdDSA"),
        "jwks": KEYS,
        "roles": {"custodian": "owner", "scientist": "analyst", "controller": "auditor"},
        "leeway": 10,
    }
    return Issuer(**(told | given))


def claims(**given):
    now = int(time.time())
    told = {"iss": URL, "aud": AUDIENCE, "sub": "ann", "exp": now + DAY, "iat": now, "roles": ["scientist"]} | given
    return {name: value for name, value in told.items() if value is not None}


def token(private=RSA, algorithm="RS256", kid="r1", headers=None, **given):
    return jwt.encode(claims(**given), private, algorithm=algorithm, headers={"kid": kid} | (headers or {}))


def part(document):
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def sealed(header, secret=None, **given):
    """Return a token that nobody signed, or that a shared secret did."""
    text = f"{part(header)}.{part(claims(**given))}"
    signature = b"" if secret is None else hmac.digest(secret, text.encode(), hashlib.sha256)
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def signed_by_hand(private, header):
    """Return a token as PyJWT would sign it, with a key that it warns of."""
    text = f"{part(header)}.{part(claims())}"
    signature = private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


@pytest.fixture
def tokens():
    return Tokens(issuer())


@pytest.mark.parametrize(
    ("private", "algorithm", "kid"),
    [(RSA, "RS256", "r1"), (RSA, "PS256", "r1"), (CURVE, "ES256", "e1"), (EDWARDS, "EdDSA", "d1")],
)
def test_a_token_of_the_issuer_is_believed(tokens, private, algorithm, kid):
    assert tokens.check(token(private, algorithm, kid)) == Caller("oidc:ann", "analyst", "oidc")


@pytest.mark.parametrize(
    ("held", "role"),
    [
        (["scientist"], "analyst"),
        ("scientist", "analyst"),
        ("reader scientist", "analyst"),
        (["scientist", "custodian"], "owner"),
        (["controller", "unknown"], "auditor"),
    ],
)
def test_the_claim_gives_the_role_by_the_table(tokens, held, role):
    assert tokens.check(token(roles=held)).role == role


PEM = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
DER = RSA.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)

FORGED = {
    "alg none": sealed({"alg": "none", "typ": "JWT", "kid": "r1"}),
    "alg None": sealed({"alg": "None", "kid": "r1"}),
    "alg missing": sealed({"kid": "r1"}),
    "alg null": sealed({"alg": None, "kid": "r1"}),
    "alg list": sealed({"alg": ["RS256"], "kid": "r1"}),
    "HS256 by the public key (PEM)": sealed({"alg": "HS256", "kid": "r1"}, PEM),
    "HS256 by the public key (DER)": sealed({"alg": "HS256", "kid": "r1"}, DER),
    "HS256 by the modulus": sealed({"alg": "HS256", "kid": "r1"}, jwk(RSA, "r1")["n"].encode()),
    "HS256 by nothing": sealed({"alg": "HS256", "kid": "r1"}, b""),
    "HMAC called RS256": sealed({"alg": "RS256", "kid": "r1"}, PEM),
    "another's key": token(OTHER),
    "another's key, brought along": token(OTHER, headers={"jwk": jwk(OTHER, "r1")}),
    "another's key, by address": token(OTHER, headers={"jku": "https://evil.example.org/keys", "x5u": "file:///etc/passwd"}),
    "another audience": token(aud="other"),
    "no audience": token(aud=None),
    "another issuer": token(iss="https://login.example.org.evil.example"),
    "no issuer": token(iss=None),
    "expired": token(exp=int(time.time()) - 60),
    "without end": token(exp=None),
    "an end that is no number": token(exp="never"),
    "not yet": token(nbf=int(time.time()) + DAY),
    "from the future": token(iat=int(time.time()) + DAY),
    "unknown kid": token(kid="r2"),
    "kid up the tree": token(kid="../../../../dev/null"),
    "kid as a file": token(kid="/etc/passwd"),
    "kid as an address": token(kid="https://evil.example.org/keys"),
    "kid as SQL": token(kid="r1' OR '1'='1"),
    "kid with NUL": token(kid="r1\x00"),
    "kid of another kind": token(RSA, "RS256", "e1"),
    "kid in capitals": token(kid="R1"),
    "too small a key": signed_by_hand(SMALL, {"alg": "RS256", "kid": "s1"}),
    "an algorithm that is not named": token(RSA, "RS384"),
    "critical extension": token(headers={"crit": ["b64"], "b64": True}),
    "no subject": token(sub=None),
    "empty subject": token(sub=""),
    "subject on two lines": token(sub="ann\nbob"),
    "subject without end": token(sub="a" * 121),
    "no role": token(roles=None),
    "unknown role": token(roles=["root"]),
    "the role's name itself": token(roles=["owner"]),
    "role in a table": token(roles={"scientist": True}),
    "role in a list in a list": token(roles=[["scientist"]]),
    "too long": token(padding="x" * 20_000),
    "no token": "a.b.c",
    "empty parts": "..",
    "header is no object": f"{part([1])}.{part(claims())}.",
    "deep header": f"{base64.urlsafe_b64encode(b'[' * 6000).decode()}.e30.",
}


@pytest.mark.parametrize("name", FORGED)
def test_whatever_the_issuer_did_not_say_is_refused_alike(tokens, name):
    with pytest.raises(Unauthorized) as refused:
        tokens.check(FORGED[name])
    assert str(refused.value) == "this service does not accept the token"
    assert refused.value.__cause__ is None


def test_a_changed_byte_of_any_part_is_refused(tokens):
    text = token()
    for place in range(0, len(text) - 1, 7):
        changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises(Unauthorized):
            tokens.check(changed)


def test_a_token_signed_by_hand_is_like_any_other(tokens):
    assert tokens.check(signed_by_hand(RSA, {"alg": "RS256", "kid": "r1"})).name == "oidc:ann"


def test_the_leeway_is_what_the_settings_say():
    late = token(exp=int(time.time()) - 5)
    assert Tokens(issuer(leeway=60)).check(late).name == "oidc:ann"
    with pytest.raises(Unauthorized):
        Tokens(issuer(leeway=0)).check(late)


def test_a_checker_that_takes_what_the_header_says_is_caught():
    # The planted fault: the algorithm comes from the token. PyJWT itself guards PEM keys; raw bytes it does not.
    forged = FORGED["HS256 by the modulus"]
    secret = jwk(RSA, "r1")["n"].encode()
    believed = jwt.decode(forged, secret, algorithms=[jwt.get_unverified_header(forged)["alg"]], audience=AUDIENCE)
    assert believed["sub"] == "ann"
    with pytest.raises(Unauthorized):
        Tokens(issuer()).check(forged)


def test_a_shared_secret_in_the_set_is_never_used():
    secret = {"kty": "oct", "kid": "r1", "k": base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")}
    tokens = Tokens(issuer(jwks={"keys": [secret]}))
    for algorithm in ("HS256", "RS256"):
        with pytest.raises(Unauthorized):
            tokens.check(sealed({"alg": algorithm, "kid": "r1"}, b"s" * 32))


@pytest.mark.parametrize("more", [{"use": "enc"}, {"alg": "RS512"}, {"kty": "EC"}, {"n": "AA"}, {"n": 3}])
def test_a_key_for_something_else_is_not_used(more):
    with pytest.raises(Unauthorized):
        Tokens(issuer(jwks={"keys": [jwk(RSA, "r1", **more)]})).check(token())


def test_without_a_kid_one_key_must_fit():
    bare = jwt.encode(claims(), RSA, algorithm="RS256")
    assert Tokens(issuer(jwks={"keys": [jwk(RSA, "r1"), jwk(CURVE, "e1")]})).check(bare).name == "oidc:ann"
    with pytest.raises(Unauthorized):
        Tokens(issuer(jwks={"keys": [jwk(RSA, "r1"), jwk(OTHER, "r2")]})).check(bare)


def test_a_file_of_keys_is_read_and_a_broken_one_refused(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEYS), encoding="utf-8")
    assert Tokens(issuer(jwks=str(path))).check(token()).name == "oidc:ann"
    for content in ("", "[]", '{"keys": 3}', '{"keys": [3]}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(RequestError):
            Tokens(issuer(jwks=str(path)))
    with pytest.raises(RequestError):
        Tokens(issuer(jwks=str(tmp_path / "absent.json")))


class Remote:
    """An issuer's address, whose keys the test changes, and a clock that it moves."""

    def __init__(self, *keys):
        self.keys, self.fetched, self.now = list(keys), 0, 1000.0

    def fetch(self, address):
        assert address == f"{URL}/keys"
        self.fetched += 1
        if self.keys is None:
            raise OSError
        return json.dumps({"keys": self.keys}).encode()

    def tokens(self):
        return Tokens(issuer(jwks=f"{URL}/keys"), fetch=self.fetch, clock=lambda: self.now)


def test_keys_at_an_address_are_fetched_at_start_and_for_an_unknown_kid_once_a_minute():
    remote = Remote(jwk(RSA, "r1"))
    tokens = remote.tokens()
    assert remote.fetched == 1
    assert tokens.check(token()).name == "oidc:ann"
    remote.keys.append(jwk(OTHER, "r2"))
    for _ in range(50):
        with pytest.raises(Unauthorized):
            tokens.check(token(OTHER, kid="r2"))
    assert remote.fetched == 1
    remote.now += 61
    assert tokens.check(token(OTHER, kid="r2")).name == "oidc:ann"
    for number in range(50):
        with pytest.raises(Unauthorized):
            tokens.check(token(kid=f"guess {number}"))
    assert remote.fetched == 2


def test_a_key_that_the_issuer_withdrew_is_forgotten_at_the_next_fetch():
    remote = Remote(jwk(RSA, "r1"))
    tokens = remote.tokens()
    assert tokens.check(token()).name == "oidc:ann"
    remote.keys[:] = [jwk(OTHER, "r2")]
    remote.now += 61
    assert tokens.check(token(OTHER, kid="r2")).name == "oidc:ann"
    with pytest.raises(Unauthorized):
        tokens.check(token())


def test_an_issuer_that_does_not_answer_leaves_what_is_known():
    remote = Remote(jwk(RSA, "r1"))
    tokens = remote.tokens()
    remote.keys = None
    remote.now += 61
    with pytest.raises(Unauthorized):
        tokens.check(token(OTHER, kid="r2"))
    assert tokens.check(token()).name == "oidc:ann"


def test_a_service_with_an_issuer_takes_keys_and_tokens(tmp_path):
    database = open_database(Settings(home=tmp_path))
    keyring, without = Keyring(database, issuer=issuer()), Keyring(database)
    text, _ = keyring.create("ann", "auditor")
    assert keyring.check(text) == asyncio.run(keyring.find_caller(text))
    assert keyring.check(token()) == asyncio.run(keyring.find_caller(token())) == Caller("oidc:ann", "analyst", "oidc")
    for check in (without.check, lambda text: asyncio.run(without.find_caller(text))):
        with pytest.raises(Unauthorized):
            check(token())
    database.close()
