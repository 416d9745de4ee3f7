"""A server that speaks as S3, Google Cloud Storage, Azure Blob Storage and the Hub do, for readers.

Everything lies in one folder: `/bucket/a/b` is its file `a/b` whatever the bucket is called, and so
are `/datasets/owner/name/resolve/main/a/b` and `/buckets/owner/name/resolve/a/b`. Listings have two
entries a page. Signatures are not checked; what was sent is in `headers`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from range_server import RangeServer

PAGE = 2


class StoreServer(RangeServer):
    """A `RangeServer` that lists its files as well; the Hub's wants `token`, where one is set."""

    token: str | None = None
    fail_listings: int = 0
    """How many of the next pages of listings are answered with 503."""
    next_pages: Callable[[int], str | None] | None = None
    """Of S3: where each page, by its number, says that the next one is; `None` leaves that out."""
    n_pages: int = 0
    """Pages of S3 listings so far."""
    hub_redirects_to: str | None = None
    """Where the Hub's files are, by another server's URL."""

    def file(self, path: str) -> Path | None:
        parts = unquote(urlsplit(path).path).lstrip("/").split("/")
        n = {"datasets": 5, "buckets": 4}.get(parts[0], 1)
        file = self.folder.joinpath(*parts[n:])
        return file if file.is_file() else None

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        url = urlsplit(to.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        is_hub = url.path.removeprefix("/api").startswith(("/datasets/", "/buckets/"))
        if is_hub and self.token and to.headers.get("Authorization") != f"Bearer {self.token}":
            self.send(to, b"", status=401)
        elif self.fail_listings and (
            url.path.startswith("/api/") or {"list-type", "comp"} & {*query}
        ):
            self.fail_listings -= 1
            self.send(to, b"", status=503)
        elif is_hub and url.path.startswith("/api/"):
            self._list_hub(to, url.path, query)
        elif query.get("list-type") == "2":
            self._list_s3(to, query)
        elif query.get("comp") == "list":
            self._list_azure(to, query)
        elif is_hub and self.hub_redirects_to:
            n = 5 if url.path.startswith("/buckets/") else 6
            location = self.hub_redirects_to + "/b/" + url.path.split("/", n)[n]
            self.send(to, b"", status=302, headers={"Location": location})
        else:
            super().answer(to)

    def send(
        self,
        to: BaseHTTPRequestHandler,
        body: bytes,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> None:
        with self.lock:
            self.requests.append((to.command, to.path, None))
            self.headers.append(dict(to.headers))
        to.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            to.send_header(name, value)
        to.end_headers()
        to.wfile.write(body)

    def _keys(self) -> list[str]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in files)

    def _page(self, query: dict[str, str], begin: str) -> tuple[list[str], list[str], str]:
        """Keys, folders and where the next page begins."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        entries: dict[str, bool] = {}
        for key in self._keys():
            if not key.startswith(prefix):
                continue
            head, slash, _ = key[len(prefix) :].partition("/")
            is_folder = bool(delimiter and slash)
            entries[prefix + head + "/" if is_folder else key] = is_folder
        names = sorted(name for name in entries if name > begin)
        page = names[:PAGE]
        following = page[-1] if len(names) > PAGE else ""
        return [n for n in page if not entries[n]], [n for n in page if entries[n]], following

    def _list_s3(self, to: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        keys, folders, following = self._page(query, query.get("continuation-token", ""))
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>1</Size><ETag>x</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in keys
        )
        found += "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            for folder in folders
        )
        is_truncated = bool(following)
        if self.next_pages is not None:
            following, is_truncated = self.next_pages(self.n_pages) or "", True
        self.n_pages += 1
        token = f"<NextContinuationToken>{escape(following)}</NextContinuationToken>"
        found += f"<IsTruncated>{str(is_truncated).lower()}</IsTruncated>"
        found += token if following else ""
        self.send(to, f"<ListBucketResult>{found}</ListBucketResult>".encode())

    def _list_azure(self, to: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        keys, folders, following = self._page(query, query.get("marker", ""))
        found = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties><Content-Length>1</Content-Length>"
            f"<Last-Modified>{formatdate(0, usegmt=True)}</Last-Modified><Etag>x</Etag>"
            "<Content-Type>a/b</Content-Type></Properties></Blob>"
            for key in keys
        )
        found += "".join(f"<BlobPrefix><Name>{escape(f)}</Name></BlobPrefix>" for f in folders)
        body = (
            f"<EnumerationResults><Blobs>{found}</Blobs>"
            f"<NextMarker>{escape(following)}</NextMarker></EnumerationResults>"
        )
        self.send(to, body.encode())

    def _list_hub(self, to: BaseHTTPRequestHandler, path: str, query: dict[str, str]) -> None:
        if path.startswith("/api/buckets/"):
            # One part, in which slashes are encoded: what names begin with.
            parts = path.split("/")[6:]
            assert len(parts) <= 1, path
            prefix = unquote(parts[0]) if parts else ""
        else:
            folder = unquote(path).split("/", 7)[7:]
            prefix = f"{folder[0].rstrip('/')}/" if folder and folder[0] else ""
        asked = {"prefix": prefix}
        if query["recursive"] == "false":
            asked["delimiter"] = "/"
        keys, folders, following = self._page(asked, query.get("cursor", ""))
        entries = [{"type": "file", "path": key, "size": 1} for key in keys]
        entries += [{"type": "directory", "path": f.rstrip("/")} for f in folders]
        headers = {}
        if following:
            more = f"{self.url}{path}?recursive={query['recursive']}&cursor={following}"
            headers["Link"] = f'<{more}>; rel="next"'
        self.send(to, json.dumps(entries).encode(), headers=headers)


@contextlib.contextmanager
def storing(folder: Path) -> Iterator[StoreServer]:
    """A server of this folder."""
    server = StoreServer(folder)
    try:
        yield server
    finally:
        server.close()
