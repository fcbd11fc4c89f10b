"""Every value that the reference documents is read as documented, by the suite's reader and after Snakemake's YAML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from config.mapping import merge, read_yaml, resolve_mapping
from config.model import Config
from config.resolve import DEFAULTS, parse_override, resolve
from config.scalars import _words, as_declared, load, unwrapped
from records.errors import ConfigError


def fields(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and annotation of every key, plans of evaluation included."""
    for name, field in model.model_fields.items():
        annotation, _ = unwrapped(field.annotation)
        if get_origin(annotation) is dict:
            inner, _ = unwrapped(get_args(annotation)[1])
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from fields(inner, f"{prefix}{name}.base.")
        elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from fields(annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", annotation


FLOATS = [key for key, annotation in fields() if annotation is float]
BOOLEANS = [key for key, annotation in fields() if annotation is bool]
WORDS = [(key, word) for key, annotation in fields() for word in _words(annotation)]


def read_back(key: str, mapping: Any) -> Any:
    """What the declared form of a mapping holds at a key."""
    found = as_declared(mapping, Config)
    for part in key.split("."):
        found = found[part]
    return found


def nested(key: str, text: str) -> str:
    """YAML that gives a key a value, written plainly."""
    return (
        "".join(f"{'  ' * depth}{part}:\n" for depth, part in enumerate(key.split(".")))[:-1] + f" {text}\n"
    )


def test_there_are_keys_of_each_kind() -> None:
    assert (len(FLOATS) > 20, len(BOOLEANS) > 1, len(WORDS) > 20) == (True, True, True)
    assert ("rollout.tool.state", "off") in WORDS


@pytest.mark.parametrize("text", ["1e-6", "1E-6", "5e0", "1.e-3", ".5", "+2.5e+1", "3", "0"])
def test_a_number_is_read_equally_at_every_float_key(text: str) -> None:
    for key in FLOATS:
        for read in (load, yaml.safe_load):
            found = read_back(key, read(nested(key, text)))
            assert isinstance(found, float | int), (key, read)
            assert found == float(text), (key, read)


def test_a_number_inside_a_list_is_read_too() -> None:
    for read in (load, yaml.safe_load):
        assert read_back("sft.betas", read("sft: {betas: [9e-1, 0.95]}")) == [0.9, 0.95]


@pytest.mark.parametrize(("key", "word"), WORDS)
def test_an_unquoted_word_of_an_enumeration_is_read(key: str, word: str) -> None:
    for read in (load, yaml.safe_load):
        assert read_back(key, read(nested(key, word))) == word


@pytest.mark.parametrize(
    "annotation", [Literal["on", "off"], Literal["yes", "no"], Literal["none", "no", "on"]]
)
def test_a_word_that_yaml_1_1_reads_as_a_boolean_is_read(annotation: Any) -> None:
    for word in get_args(annotation):
        assert as_declared(yaml.safe_load(word), annotation) == word


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("off", False), ("true", True), ("No", False)])
def test_a_boolean_is_read_equally_under_both_versions(text: str, value: bool) -> None:
    for key in BOOLEANS:
        for read in (load, yaml.safe_load):
            assert read_back(key, read(nested(key, text))) is value


def test_the_documented_spellings_resolve(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("objective: {optimizer: {lr: 1e-6}}\nrollout: {tool: {state: off}}\n")
    by_file = resolve([mine])
    by_set = resolve([], ["objective.optimizer.lr=1e-6", "rollout.tool.state=off"])
    by_snakemake = resolve_mapping(merge(read_yaml(DEFAULTS), yaml.safe_load(mine.read_text())))
    assert by_file == by_set == by_snakemake
    assert (by_file.objective.optimizer.lr, by_file.rollout.tool.state) == (1e-6, "off")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("0o10", 8),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("~", None),
    ],
)
def test_other_traps_of_yaml_1_1_are_avoided(text: str, value: Any) -> None:
    assert parse_override(f"a={text}") == {"a": value}


def test_a_key_given_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("rl:\n  rl1: {steps: 3}\n  rl1: {max_turns: 2}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: is not YAML \(line 3: 'rl1' is given twice\)"):
        resolve([path])


@pytest.mark.parametrize("text", ["a: &x [*x]", "[" * 3000, "rl: " + "9" * 5000])
def test_yaml_that_cannot_be_a_configuration_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        resolve([path])
    assert len(str(caught.value)) < 400


# --- null removes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [load, yaml.safe_load])
def test_null_removes_a_plan_a_list_and_a_section_that_may_be_absent(read: Any) -> None:
    text = "{eval: {plans: {rl3_cool: null}}, sandbox: {preload: null}, arms: null, sft: {noise: null}}"
    config = resolve_mapping(merge(read_yaml(DEFAULTS), read(text)))
    assert "rl3_cool" not in config.eval.plans
    assert "rl3" in config.eval.plans
    assert (config.sandbox.preload, config.arms) == ([], {})
    assert config.sft.noise.model_dump() == type(config.sft.noise).ABSENT


def test_null_removes_by_file_and_by_set(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("eval: {plans: {rl3_cool: null}}\n")
    assert resolve([path]) == resolve([], ["eval.plans.rl3_cool=null"])
    assert resolve([], ["eval.plans=null", "arms=null"]).eval.plans == {}


@pytest.mark.parametrize("key", ["rl.rl1", "rl.rl1.steps", "model", "objective.roc.selection", "eval.seed"])
def test_null_where_a_value_is_needed_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} = None: .*null removes only what may be absent"):
        resolve([], [f"{key}=null"])
