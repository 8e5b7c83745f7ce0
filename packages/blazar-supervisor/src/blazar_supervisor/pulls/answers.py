"""What a server's answer to a request for a range says. Pure but for reading the headers."""

from dataclasses import dataclass

from aiohttp import ClientResponse

from blazar_routing.errors import PullFailed, PullNotFound, PullRefused
from blazar_supervisor.pulls.parts import parse_content_range


class Failing(Exception):
    """Something that passes by: asking again makes sense.

    Args:
        retry_after_s: What the server asked for, or ``None``.
    """

    def __init__(self, text: str, *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(text)


class Misfit(Exception):
    """An answer that does not belong to what was asked for, or to the file that was begun."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A body that is about to come.

    Attributes:
        size: Bytes of the whole file.
        start: Where the body begins in it.
        stop: Where it ends, exclusive.
        tag: The strong ETag, or ``None``.
        ranged: Whether it is a part; ``False`` when the server ignored the range.
    """

    size: int
    start: int
    stop: int
    tag: str | None
    ranged: bool


def read_answer(response: ClientResponse, *, start: int, listed: int | None) -> Answer:
    """Return what an answer to a request for bytes from ``start`` on brings.

    Args:
        response: Its headers are read only.
        start: The first byte asked for.
        listed: The file's size where a listing said.

    Raises:
        Misfit: Another range, or a range that does not exist any more.
        Failing: The server has trouble or wants to be left alone for a while.
        PullNotFound, PullRefused, PullFailed: Asking again would not help.
    """
    if response.headers.get("Content-Encoding", "identity").lower() not in {"", "identity"}:
        raise PullFailed(f"{response.url.host} compresses the file, so it cannot be fetched in parts. Try a mirror.")
    tag = _strong(response.headers.get("ETag"))
    match response.status:
        case 206:
            found = parse_content_range(response.headers.get("Content-Range"))
            if found is None or found[0] != start:
                raise Misfit("the server sends another range than was asked for")
            size = found[2] if found[2] is not None else listed
            answer = Answer(_known(size, response), start, found[1], tag, ranged=True)
        case 200:
            size = response.content_length if response.content_length is not None else listed
            answer = Answer(_known(size, response), 0, _known(size, response), tag, ranged=False)
        case 416:
            total = response.headers.get("Content-Range", "").rpartition("/")[2]
            if total == "0":
                answer = Answer(0, 0, 0, tag, ranged=False)
            else:
                raise Misfit("the server says that there is no such range")
        case status:
            raise _status_error(response, status)
    if answer.size == 0:
        raise PullFailed(
            f"{response.url.host} sent an empty file for {response.url.name}. Try again later or a mirror."
        )
    if listed is not None and answer.size != listed:
        raise PullFailed(
            f"{response.url.name} has {answer.size} bytes at {response.url.host}, and the listing says {listed}. "
            "The repository may just be changing: run the same command again."
        )
    return answer


def refuse_web_page(response: ClientResponse, url: str, *, magic: bytes) -> None:
    """Refuse a web page where a file with a ``magic`` beginning was asked for: a captive portal, a login.

    Raises:
        PullFailed: It is one; what had arrived before is untouched.
    """
    if magic and response.content_type in {"text/html", "application/xhtml+xml"}:
        raise PullFailed(
            f"instead of {url} a web page came: the network may want you to log in first (a captive portal). "
            "Open a page in your browser, and run the same command again; what had arrived is kept."
        )


def _status_error(response: ClientResponse, status: int) -> Exception:
    host, name = response.url.host, response.url.name
    if status in {401, 403}:
        return PullRefused(
            f"{host} does not hand out {name} (HTTP {status}): it may need a token or an accepted licence. "
            "Accept the licence on the model's page and set HF_TOKEN."
        )
    if status in {404, 410}:
        return PullNotFound(f"there is no {name} at {host} (HTTP {status}). Check the name.")
    if status in {408, 425, 429} or status >= 500:
        wait = response.headers.get("Retry-After", "")
        return Failing(f"{host} answered HTTP {status}", retry_after_s=float(wait) if wait.isdecimal() else None)
    return PullFailed(f"{host} answered HTTP {status} for {name}. Try again later or a mirror.")


def _known(size: int | None, response: ClientResponse) -> int:
    if size is None:
        raise PullFailed(f"{response.url.host} does not say how long {response.url.name} is, so it cannot be checked.")
    return size


def _strong(tag: str | None) -> str | None:
    return None if tag is None or tag.startswith("W/") else tag
