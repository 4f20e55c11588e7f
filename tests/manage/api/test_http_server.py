"""The HTTP server beside its calls: sessions, wrong logins, headers, methods, compression, prefix."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec
import pytest

from openclust.manage.calls.http_logins import TOKEN_HEADER
from openclust.shell.config.schema import HttpSection
from tests.manage.api.test_http_api import add_queues, add_user
from tests.support.manage.running_api import Answer, RunningApi, running_api

pytestmark = pytest.mark.sockets

FORM = "application/x-www-form-urlencoded"
GUEST = urlencode({"username": "guest", "password": "guest"}).encode()


def log_in(api: RunningApi, body: bytes = GUEST, type: str = FORM, **headers: str) -> Answer:
    return api.call("POST", "/api/login", body, login=None, Content_Type=type, **headers)


def cookie_of(answer: Answer) -> str:
    return answer.headers["Set-Cookie"].partition(";")[0]


# -- sessions


def test_a_login_gives_a_cookie_that_scripts_cannot_read_and_other_sites_cannot_use(api: RunningApi) -> None:
    answer = log_in(api)
    assert (answer.status, answer.json) == (200, "ok")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"openclust_session_{api.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"} <= set(cookie.split("; "))
    assert "Secure" not in cookie, "without TLS a browser would not send it back"


def test_a_login_may_be_json_too(api: RunningApi) -> None:
    assert log_in(api, b'{"username": "guest", "password": "guest"}', "application/json").status == 200


@pytest.mark.parametrize("body", [b"", b"username=guest", b"\xff=\xfe", b"&" * 100, b"x" * 10_000])
def test_a_login_that_makes_no_sense_is_refused(api: RunningApi, body: bytes) -> None:
    assert log_in(api, body).status in (400, 413)
    assert log_in(api, body, "application/json").status in (400, 413)


def test_a_wrong_login_and_one_without_a_tag_get_no_session(api: RunningApi) -> None:
    assert log_in(api, b"username=guest&password=wrong").status == 401
    add_user(api, "plain")
    answer = log_in(api, b"username=plain&password=plain")
    assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)


def test_reading_needs_the_cookie_and_writing_the_token_too(api: RunningApi) -> None:
    answer = log_in(api)
    cookie, token = cookie_of(answer), answer.headers[TOKEN_HEADER]
    shown = api.call("GET", "/api/whoami", login=None, Cookie=cookie)
    assert (shown.json["name"], shown.headers[TOKEN_HEADER]) == ("guest", token)
    refused = api.call("PUT", "/api/vhosts/new", login=None, Cookie=cookie)
    assert (refused.status, refused.json["error"]) == (403, "token_missing")
    assert api.call("PUT", "/api/vhosts/new", login=None, Cookie=cookie, X_CSRF_Token="wrong").status == 403
    assert api.call("PUT", "/api/vhosts/new", login=None, Cookie=cookie, X_CSRF_Token=token).status == 201


def test_a_page_of_another_site_can_neither_write_nor_log_in(api: RunningApi) -> None:
    answer = log_in(api)
    headers = {"Cookie": cookie_of(answer), "X_CSRF_Token": answer.headers[TOKEN_HEADER]}
    refused = api.call("PUT", "/api/vhosts/new", login=None, **headers, Sec_Fetch_Site="cross-site")
    assert (refused.status, refused.json["error"]) == (403, "cross_site")
    assert log_in(api, Sec_Fetch_Site="cross-site").status == 403


def test_a_password_holds_beside_a_cookie_and_needs_no_token(api: RunningApi) -> None:
    cookie = cookie_of(log_in(api))
    assert api.call("PUT", "/api/vhosts/new", Cookie=cookie).status == 201
    assert api.call("GET", "/api/whoami", login="guest:wrong", Cookie=cookie).status == 401


def test_logging_out_ends_the_session(api: RunningApi) -> None:
    answer = log_in(api)
    cookie, token = cookie_of(answer), answer.headers[TOKEN_HEADER]
    assert api.call("POST", "/api/logout", login=None, Cookie=cookie).status == 403
    ended = api.call("POST", "/api/logout", login=None, Cookie=cookie, X_CSRF_Token=token)
    assert (ended.status, "Max-Age=0" in ended.headers["Set-Cookie"]) == (204, True)
    refused = api.call("GET", "/api/whoami", login=None, Cookie=cookie)
    assert (refused.status, "WWW-Authenticate" in refused.headers) == (401, False)
    assert api.call("POST", "/api/logout", login=None).status == 204, "without a session there is nothing to end"


def test_a_new_password_ends_the_session(api: RunningApi) -> None:
    add_user(api, "alice", "administrator")
    cookie = cookie_of(log_in(api, b"username=alice&password=alice"))
    assert api.call("GET", "/api/whoami", login=None, Cookie=cookie).status == 200
    api.call("PUT", "/api/users/alice", {"tags": "administrator", "password": "new"})
    assert api.call("GET", "/api/whoami", login=None, Cookie=cookie).status == 401


def test_what_rabbitmqs_pages_ask_before_a_login_is_answered(api: RunningApi) -> None:
    assert api.call("GET", "/api/auth", login=None).json["enable_uaa"] is False
    assert api.get("/api/extensions") == [{"javascript": "dispatcher.js"}]


# -- wrong logins


def test_after_ten_wrong_logins_also_the_right_one_has_to_wait() -> None:
    with running_api() as api:
        for _ in range(10):
            assert api.call("GET", "/api/whoami", login="guest:wrong").status == 401
        answer = api.call("GET", "/api/whoami")
        assert (answer.status, answer.json["error"]) == (429, "too_many_requests")
        assert 1 <= int(answer.headers["Retry-After"]) <= 6
        assert log_in(api).status == 429
        assert api.call("GET", "/api/whoami", login=add_user(api, "other", "management")).status == 200


def test_a_session_goes_on_where_logins_have_to_wait(api: RunningApi) -> None:
    cookie = cookie_of(log_in(api))
    for _ in range(11):
        api.call("GET", "/api/whoami", login="guest:wrong")
    assert api.call("GET", "/api/whoami", login=None, Cookie=cookie).status == 200


# -- headers and methods


@pytest.mark.parametrize(
    ("path", "login"), [("/api/overview", "guest:guest"), ("/api/users", None), ("/nothing", None)]
)
def test_every_answer_has_the_headers_that_keep_browsers_safe(api: RunningApi, path: str, login: str | None) -> None:
    headers = api.call("GET", path, login=login).headers
    assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Server"] == "openclust"
    assert "Strict-Transport-Security" not in headers
    assert not any(name.startswith("Access-Control-") for name in headers)


def raw(api: RunningApi, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", api.port), timeout=10) as sock:
        sock.sendall(data)
        return b"".join(iter(lambda: sock.recv(65_536), b""))


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET /api/health HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
        b"GET /api/health HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api/health HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET /api/health HTTP/1.1\r\nHost: x\r\nExpect: \xff\r\n\r\n",
        b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_what_is_no_http_gets_an_answer_like_all_others_and_no_line_in_the_log(
    api: RunningApi, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    answer = raw(api, data)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.") and b" 400 " in head.splitlines()[0]
    assert json.loads(body)["error"] == "bad_request"
    assert b"nosniff" in head
    assert caplog.text == ""


def test_head_is_get_without_a_body(api: RunningApi) -> None:
    shown, head = api.call("GET", "/api/whoami"), api.call("HEAD", "/api/whoami")
    assert (head.status, head.data) == (200, b"")
    assert head.headers["Content-Length"] == str(len(shown.data))
    assert api.call("HEAD", "/api/whoami", login=None).status == 401


def test_options_needs_no_login_and_lists_the_methods(api: RunningApi) -> None:
    answer = api.call("OPTIONS", "/api/vhosts/x", login=None)
    assert answer.status == 200
    assert {"PUT", "DELETE", "OPTIONS"} <= set(answer.headers["Allow"].split(", "))
    assert api.call("OPTIONS", "/api/nothing", login=None).status == 404


def test_who_takes_no_json_gets_406(api: RunningApi) -> None:
    assert api.call("GET", "/api/overview", Accept="text/html").status == 406
    assert api.call("GET", "/api/overview", Accept="text/html, */*;q=0.8").status == 200


def test_a_long_list_is_compressed_for_who_asks(api: RunningApi) -> None:
    add_queues(api, 300)
    plain = api.call("GET", "/api/queues?columns=name,vhost")
    answer = api.call("GET", "/api/queues?columns=name,vhost", Accept_Encoding="br, gzip;q=0.5")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in answer.headers["Vary"]
    assert gzip.decompress(answer.data) == plain.data
    assert len(answer.data) * 5 < len(plain.data)
    for header in ("identity", "gzip;q=0", ""):
        assert "Content-Encoding" not in api.call("GET", "/api/queues", Accept_Encoding=header).headers
    assert "Content-Encoding" not in api.call("GET", "/api/whoami", Accept_Encoding="gzip").headers


def test_a_compressed_body_is_not_taken(api: RunningApi) -> None:
    body = gzip.compress(b'{"tags": ""}')
    assert api.call("PUT", "/api/users/x", body, Content_Encoding="gzip").status == 415


@pytest.mark.parametrize("chunks", [b"zz\r\n", b"5\r\nab", b"-1\r\n\r\n"], ids=["no number", "cut off", "negative"])
def test_a_body_that_breaks_off_is_no_mistake_of_the_broker(
    api: RunningApi, caplog: pytest.LogCaptureFixture, chunks: bytes
) -> None:
    head = b"PUT /api/users/x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
    with socket.create_connection(("127.0.0.1", api.port), timeout=10) as sock:
        sock.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        sock.sendall(chunks)
    assert api.call("GET", "/api/health").status == 200
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


# -- settings


@pytest.fixture(scope="module")
def board() -> Iterator[RunningApi]:
    section = HttpSection(port=0, cors_origins=("https://board.example.com",), path_prefix="/mq")
    with running_api(http=section) as running:
        yield running


def test_pages_of_a_listed_origin_may_call(board: RunningApi) -> None:
    answer = board.call("GET", "/mq/api/overview", Origin="https://board.example.com")
    assert answer.headers["Access-Control-Allow-Origin"] == "https://board.example.com"
    assert "X-Openclust-Missing" in answer.headers["Access-Control-Expose-Headers"]
    asked = {"Origin": "https://board.example.com", "Access_Control_Request_Method": "PUT"}
    answer = board.call("OPTIONS", "/mq/api/vhosts/x", login=None, **asked)
    assert "PUT" in answer.headers["Access-Control-Allow-Methods"]
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in answer.headers


def test_pages_of_other_origins_may_not(board: RunningApi) -> None:
    answer = board.call("GET", "/mq/api/overview", Origin="https://evil.example.com")
    assert "Access-Control-Allow-Origin" not in answer.headers
    asked = {"Origin": "https://evil.example.com", "Access_Control_Request_Method": "PUT"}
    assert "Access-Control-Allow-Methods" not in board.call("OPTIONS", "/mq/api/vhosts/x", login=None, **asked).headers


def test_a_prefix_stands_before_every_path(board: RunningApi) -> None:
    assert board.get("/mq/api/health") == board.get("/mq/api/health/") == {"status": "ok"}
    assert board.call("GET", "/api/health").status == 404
    assert board.get("/mq/api/openapi.json")["servers"] == [{"url": "/mq"}]
    answer = board.call("POST", "/mq/api/login", GUEST, login=None, Content_Type=FORM)
    assert "Path=/mq;" in answer.headers["Set-Cookie"]


def test_a_session_lasts_as_long_as_it_is_set_to() -> None:
    with running_api(http=msgspec.structs.replace(HttpSection(port=0), session_lifetime_s=60)) as api:
        cookie = cookie_of(log_in(api))
        assert api.call("GET", "/api/whoami", login=None, Cookie=cookie).status == 200
        now_ms = api.on_loop(lambda server: server.now_ms())
        api.on_loop(lambda server: setattr(server, "now_ms", lambda: now_ms + 60_000))
        assert api.call("GET", "/api/whoami", login=None, Cookie=cookie).status == 401
