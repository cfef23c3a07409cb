"""Which cluster a kubeconfig names, and as whom: what kubectl would do, or a sentence why not."""

import base64
from pathlib import Path
from typing import Any

import pytest

from cluster.pki import Authority
from splitpool_kube.access import Access, NoAccess
from splitpool_kube.kubeconfig import access
from unit.kubeconfigs import config, written


def as_user(folder: Path, user: dict[str, Any]) -> Access:
    return access([written(folder, config(users=[{"name": "u", "user": user}]))])


def test_the_current_context_is_used_unless_another_is_named(tmp_path: Path) -> None:
    there = {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
    content = config()
    content["contexts"].append(there)
    file = written(tmp_path, content)
    here = access([file])
    assert (here.server, here.namespace, here.token) == ("https://one:6443", "default", "secret")
    assert access([file], "there").namespace == "team"


def test_of_several_files_the_first_that_names_something_wins(tmp_path: Path) -> None:
    other = config(
        **{"current-context": "elsewhere"},
        clusters=[{"name": "c", "cluster": {"server": "https://two"}}],
        users=[{"name": "u", "user": {"token": "other"}}, {"name": "v", "user": {}}],
    )
    first = written(tmp_path, {"users": [{"name": "u", "user": {"token": "mine"}}]}, "first")
    found = access([first, written(tmp_path, config(), "second"), written(tmp_path, other)])
    assert (found.server, found.token) == ("https://one:6443", "mine")


def test_paths_are_relative_to_their_file_and_data_stands_before_them(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    cluster = {"server": "https://one", "certificate-authority": "ca.pem"}
    data = base64.b64encode(b"inline").decode()
    user = {"client-certificate": "none.pem", "client-certificate-data": data, "tokenFile": "t"}
    content = config(
        clusters=[{"name": "c", "cluster": cluster}], users=[{"name": "u", "user": user}]
    )
    file = written(folder, content)
    (folder / "t").write_text("from a file\n")
    found = access([file])
    assert (found.authority, found.certificate) == (folder / "ca.pem", b"inline")
    assert found.headers() == {"Authorization": "Bearer from a file"}


def test_an_identity_token_of_an_auth_provider_is_used(tmp_path: Path) -> None:
    provider = {"name": "oidc", "config": {"id-token": "identity"}}
    assert as_user(tmp_path, {"auth-provider": provider}).token == "identity"


@pytest.mark.parametrize(
    ("content", "context", "said"),
    [
        ("hello", None, "it is no kubeconfig"),
        ("a: [", None, "it is no YAML"),
        (
            config(**{"current-context": ""}),
            None,
            "kubectl config use-context sets one: here",
        ),
        (config(), "her", "context 'her' is not in"),
        (config(), "her", "did you mean here?"),
        (config(), "zzz", "known: here"),
        (config(clusters=[]), None, "its cluster 'c' has no server"),
        (config(contexts=[{"context": {}}]), None, "one of its contexts has no name"),
        (config(users=[{"name": "u", "user": {"client-key-data": "%"}}]), None, "cannot be used"),
        (config(users=[{"name": "u", "user": "root"}]), None, "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, content: Any, context: str | None, said: str
) -> None:
    with pytest.raises(NoAccess) as refused:
        access([written(tmp_path, content)], context)
    assert said in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def at(folder: Path, cluster: dict[str, Any]) -> Access:
    named = {"name": "c", "cluster": {"server": "https://api.example:6443", **cluster}}
    return access([written(folder, config(clusters=[named]))])


@pytest.mark.parametrize("inline", [False, True])
def test_certificates_come_from_files_or_from_the_kubeconfig_itself(
    tmp_path: Path, inline: bool
) -> None:
    (tmp_path / "pki").mkdir()
    authority = Authority(tmp_path / "pki")
    pair = authority.user("somebody")

    def field(name: str, file: Path) -> dict[str, str]:
        if inline:
            return {f"{name}-data": base64.b64encode(file.read_bytes()).decode()}
        return {name: str(file)}

    trusted = field("certificate-authority", authority.certificate)
    cluster = {"name": "c", "cluster": {"server": "https://api.example:6443", **trusted}}
    user = field("client-certificate", pair.certificate) | field("client-key", pair.key)
    content = config(clusters=[cluster], users=[{"name": "u", "user": user}])
    context = access([written(tmp_path, content)]).tls()
    (known,) = context.get_ca_certs()
    assert known["subject"] == ((("commonName", "splitpool-tests"),),)
    assert context.check_hostname


def test_verification_can_be_given_up_by_name_only(tmp_path: Path) -> None:
    assert at(tmp_path, {}).tls().check_hostname
    assert not at(tmp_path, {"insecure-skip-tls-verify": True}).tls().check_hostname


def test_a_missing_certificate_is_named_when_it_is_needed(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match=r"api\.example.*none\.crt"):
        at(tmp_path, {"certificate-authority": "none.crt"}).tls()


def test_a_missing_key_is_named_when_it_is_needed(tmp_path: Path) -> None:
    files = {"client-certificate": str(Path(__file__)), "client-key": "k.pem"}
    with pytest.raises(NoAccess, match=r"certificates for https://one.*k\.pem"):
        as_user(tmp_path, files).tls()


def test_a_missing_token_is_named_when_it_is_needed(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match=r"token file .*none"):
        as_user(tmp_path, {"tokenFile": "none"}).headers()


def test_a_name_and_a_password_are_sent_where_there_is_no_token(tmp_path: Path) -> None:
    user = {"username": "me", "password": "it"}
    basic = base64.b64encode(b"me:it").decode()
    assert as_user(tmp_path, user).headers() == {"Authorization": f"Basic {basic}"}
    token = as_user(tmp_path, user | {"token": "t"})
    assert token.headers() == {"Authorization": "Bearer t"}
