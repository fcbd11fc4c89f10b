"""Rewriting with a server: each text asked for once, kept over a failure, its absence in the card."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from config.recipes import load_recipe
from records.data_card import DataCard
from records.errors import ConfigError
from trainer.data.recipe_job import CONVERSATIONS, Order, build
from trainer.jobs.work_folder import WorkDir
from trainer.sft.rewriting import Rewriter


class Server(ThreadingHTTPServer):
    asked: list[dict[str, Any]]
    fail_from = 10**9
    """Requests from this number on fail."""


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._send(200, {"data": [{"id": "small-model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        if len(self.server.asked) > self.server.fail_from:
            self._send(400, {})
            return
        text = "NEW " + body["messages"][-1]["content"][-5:]
        self._send(200, {"choices": [{"message": {"content": text}}]})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.asked = []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def base_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


def run(folder: Path, rewriter: Rewriter | None) -> tuple[DataCard, list[dict[str, Any]]]:
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"Sum {at}"},
                {"role": "assistant", "content": f"old {at}"},
            ]
        }
        for at in range(6)
    ]
    for name in ("a", "b"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row | {"n": name}) + "\n" for row in rows))
    common = {"licence": "MIT", "conversion": "tulu", "where": {}}
    sources = [
        {"name": "a", "file": "a.jsonl", "rewrite": "responses", **common},
        {"name": "b", "file": "b.jsonl", "rewrite": "prompts", **common},
    ]
    # Rows of b repeat those of a; another word keeps them.
    (folder / "b.jsonl").write_text((folder / "b.jsonl").read_text().replace("Sum", "Product"))
    recipe = {"title": "T", "seed": 1, "conversations": {"sources": sources, "decontaminate": False}}
    (folder / "r.yaml").write_text(yaml.safe_dump(recipe))
    order = Order(name="r", recipe=load_recipe(str(folder / "r.yaml")), data=folder, rewriter=rewriter)
    made = folder / "made"
    made.mkdir(exist_ok=True)
    with WorkDir.open(folder / "work", order.fingerprint) as work:
        card = build(order, work, made)
    return card, pq.read_table(made / CONVERSATIONS).to_pylist()


def test_without_a_server_the_card_states_that_nothing_is_rewritten(tmp_path: Path) -> None:
    card, rows = run(tmp_path, None)
    assert card.rewriting.startswith("not done: the paper's o4-mini rewrote responses of a, prompts of b")
    assert {row["messages"][-1]["text"][:3] for row in rows} == {"old"}


def test_responses_or_prompts_are_replaced_and_each_is_asked_for_once(tmp_path: Path, server: Server) -> None:
    cache = tmp_path / "answers.jsonl"
    card, rows = run(tmp_path, Rewriter(base_of(server), cache))
    assert card.rewriting == "responses of a, prompts of b, by small-model"
    for row in rows:
        user, assistant = row["messages"]
        assert user["text"].startswith("Sum" if row["source"] == "a" else "NEW")
        assert assistant["text"].startswith("NEW" if row["source"] == "a" else "old")
    assert len(server.asked) == 12
    assert run(tmp_path, Rewriter(base_of(server), cache))[1] == rows
    assert len(server.asked) == 12


def test_a_server_that_fails_is_one_line_and_what_it_answered_is_kept(tmp_path: Path, server: Server) -> None:
    cache = tmp_path / "answers.jsonl"
    server.fail_from = 5
    with pytest.raises(ConfigError, match="run the same command again"):
        run(tmp_path, Rewriter(base_of(server), cache))
    kept = sum(bool(line) for line in cache.read_text().splitlines())
    assert kept == 5
    cache.write_text(cache.read_text() + '{"key": "cut')
    server.fail_from, before = 10**9, len(server.asked)
    _, rows = run(tmp_path, Rewriter(base_of(server), cache))
    assert len(rows) == 12
    assert len(server.asked) - before == 12 - kept
