"""What names a configuration: new fields, changed defaults and the order of keys do not; values and revisions do."""

import json
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import settings as checked
from hypothesis import strategies as st

from trainers.config.member import EvaluationConfig, MemberConfig, TrainingConfig
from trainers.config.recorded_members import build_recorded_member, describe_revisions
from trainers.errors import ConfigError
from trainers.models.attention_only import AttentionOnly
from trainers.models.decoder import Decoder
from trainers.optimization.averaging import Ema
from trainers.optimization.schedules import Cosine
from trainers.positions.rope import Rope
from trainers.settings import registry
from trainers.settings.fields import NOTHING, Settings, list_technical_keys, setting, settings_fields
from trainers.settings.identity import compute_digest, make_identity, make_structure
from trainers.tasks.set_complement import SetComplement

VALUES: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-3, 3),
    float: st.sampled_from([-0.5, 0.0, 0.5, 1.0, 1e-8]),
    bool: st.booleans(),
    str: st.sampled_from(["a", "b", "auto"]),
}


@st.composite
def declared(draw: st.DrawFn) -> dict[str, tuple[type, dict[str, Any]]]:
    """Fields of a class of settings: a type, a default or none, a member hyperparameter or not, with variant or not."""
    fields = {}
    for name in draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=5)):
        kind = draw(st.sampled_from(list(VALUES)))
        options: dict[str, Any] = {"default": draw(VALUES[kind])} if draw(st.booleans()) else {}
        if draw(st.booleans()):
            options["member"] = True
            if draw(st.booleans()):
                options["variant"] = lambda value: value in (1, 0.5, "a")
        fields[name] = (kind, options)
    return fields


def made(fields: dict[str, tuple[Any, dict[str, Any]]], base: type[Settings] = Settings) -> type[Settings]:
    """A class of settings with these fields beside those of its base."""
    annotations = {name: kind for name, (kind, _) in fields.items()}
    defaults = {name: setting(**options) for name, (_, options) in fields.items()}
    about = {"__annotations__": annotations, "__module__": base.__module__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), {**about, **defaults})


def values_of(draw: st.DrawFn, fields: dict[str, tuple[type, dict[str, Any]]]) -> dict[str, Any]:
    """A value for every required field and for some of the others."""
    return {
        name: draw(VALUES[kind])
        for name, (kind, options) in fields.items()
        if "default" not in options or draw(st.booleans())
    }


@checked(max_examples=50)
@given(declared(), declared(), st.data())
def test_a_field_that_is_added_with_a_default_changes_no_name(before, more, data) -> None:
    more = {name.upper(): field for name, field in more.items() if "default" in field[1]}
    values = values_of(data.draw, before)
    old, new = made(before)(**values), made({**more, **before})(**values)
    assert compute_digest(make_identity(old)) == compute_digest(make_identity(new))
    assert compute_digest(make_structure(old)) == compute_digest(make_structure(new))


@checked(max_examples=50)
@given(declared(), st.data())
def test_another_value_is_another_name(fields, data) -> None:
    cls = made(fields)
    first, second = cls(**values_of(data.draw, fields)), cls(**values_of(data.draw, fields))
    same = json.dumps(first.to_dict()) == json.dumps(second.to_dict())
    assert (compute_digest(make_identity(first)) == compute_digest(make_identity(second))) is same


@checked(max_examples=50)
@given(declared(), st.data())
def test_member_hyperparameters_do_not_enter_the_structure_but_their_variants_do(fields, data) -> None:
    cls, values = made(fields), values_of(data.draw, fields)
    changed = values | {
        name: value
        for name, value in values_of(data.draw, fields).items()
        if fields[name][1].get("member") and name in values
    }

    def of_a_pack(settings: Settings) -> list[Any]:
        return [
            options["variant"](getattr(settings, name)) if "variant" in options else None
            for name, (_, options) in fields.items()
            if options.get("member")
        ]

    first, second = cls(**values), cls(**changed)
    same = of_a_pack(first) == of_a_pack(second)
    assert (compute_digest(make_structure(first)) == compute_digest(make_structure(second))) is same


@checked(max_examples=50)
@given(st.randoms())
def test_the_order_of_keys_does_not_matter(sections, random) -> None:
    def shuffled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}

    plain = sections(
        training__schedule={"name": "cosine", "warmup": 3},
        training__averages={"raw": {}, "ema": {"decay": 0.9}, "slow": {"kind": "ema", "decay": 0.99}},
    )
    first, second = MemberConfig.from_dict(plain), MemberConfig.from_dict(shuffled(plain))
    assert first.config_id == second.config_id and first.structural_key == second.structural_key


# Fields added to shipped classes --------------------------------------------------------------------------------------


GROWN = [
    made({"more": (int, {"default": 3})}, SetComplement),
    made({"more": (float, {"default": 0.5})}, AttentionOnly),
    made({"more": (str, {"default": "alibi", "kind": "position"})}, Decoder),
    made({"more": (tuple[int, ...], {"default": (1, 2)})}, Rope),
    made({"more": (float, {"default": 0.5, "member": True, "variant": lambda value: value > 0})}, Ema),
    made({"more": (bool, {"default": True})}, Cosine),
    made({"more": (int | None, {"default": None, "member": True, "variant": bool})}, TrainingConfig),
    made({"more": (str | tuple[int, ...], {"default": "all"})}, EvaluationConfig),
]


@pytest.fixture
def plain(sections) -> list[dict[str, Any]]:
    """Sections of two members that meet every kind of registered class, and leave most of them absent."""
    decoder = {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": "rope"}
    whole = sections(model=decoder, training__schedule={"name": "cosine"})
    bare = sections(evaluation={})
    del bare["training"]["averages"]
    return [whole, bare]


def put_in(monkeypatch: pytest.MonkeyPatch, cls: type[Settings]) -> None:
    """Let a class stand where the shipped one it derives from stood."""
    for item in settings_fields(MemberConfig):
        if item.metadata["kind"] is cls.__mro__[1]:
            monkeypatch.setattr(item, "metadata", {**item.metadata, "kind": cls})
    for kind in registry.KINDS:
        for name in registry.list_names(kind):
            if registry.get_class(kind, name) is cls.__mro__[1]:
                monkeypatch.setitem(registry._classes[kind], name, cls)


def keys(plain: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The names of these members."""
    members = [MemberConfig.from_dict(sections) for sections in plain]
    return [(member.config_id, member.structural_key) for member in members]


@pytest.mark.parametrize("cls", GROWN, ids=lambda cls: cls.__name__)
def test_a_field_added_to_a_shipped_class_changes_no_name(monkeypatch, plain, cls) -> None:
    before = keys(plain)
    put_in(monkeypatch, cls)
    assert keys(plain) == before
    assert "'more'" in str([MemberConfig.from_dict(sections).to_dict() for sections in plain])


def test_a_section_is_named_only_where_it_is_not_absent(sections) -> None:
    data = sections(evaluation={})
    del data["training"]["averages"]
    bare = MemberConfig.from_dict(data)
    for written in (
        {"training__schedule": {"name": "constant", "warmup": 0}},
        {"training__averages": {"raw": {"kind": "raw"}}},
        {"evaluation": {"every": None, "samples": 2000, "lengths": "all"}},
    ):
        named = MemberConfig.from_dict(sections(**{"evaluation": {}, "training__averages": {"raw": {}}, **written}))
        assert (named.config_id, named.structural_key) == (bare.config_id, bare.structural_key)
    for other in (
        {"training__schedule": {"name": "constant", "warmup": 1}},
        {"training__averages": {"plain": {"kind": "raw"}}},
        {"evaluation": {"samples": 2001}},
    ):
        named = MemberConfig.from_dict(sections(**{"evaluation": {}, "training__averages": {"raw": {}}, **other}))
        assert named.config_id != bare.config_id and named.structural_key != bare.structural_key


# Defaults that change -------------------------------------------------------------------------------------------------


def first_and_later(**later: Any) -> tuple[type[Settings], type[Settings]]:
    class First(Settings):
        width: int = setting(8)

    class Later(Settings):
        width: int = setting(16, **later)

    return First, Later


def test_a_changed_default_keeps_names_where_absent_is_given() -> None:
    first, later = first_and_later(absent=8)
    assert make_identity(first()) == make_identity(later(width=8)) == {}
    assert make_identity(later()) == make_identity(first(width=16)) == {"width": 16}


def test_a_changed_default_without_absent_gives_one_name_to_two_computations() -> None:
    """What the golden list of absent values is there for."""
    first, later = first_and_later()
    assert make_identity(first()) == make_identity(later()) == {}


def test_a_default_for_a_field_that_was_required_leaves_nothing_out() -> None:
    class Required(Settings):
        width: int = setting()

    _, later = first_and_later(absent=NOTHING)
    assert make_identity(later()) == make_identity(Required(width=16)) == {"width": 16}


def test_minus_zero_has_an_identity_of_its_own() -> None:
    """Its bits differ from those of 0, and so does its JSON, by which versions so far have compared."""
    cls = made({"shift": (float, {"default": 0.0})})
    assert "shift" in make_identity(cls(shift=-0.0)) and "shift" not in make_identity(cls(shift=0.0))


def test_absent_has_the_type_of_its_field() -> None:
    class Numbers(Settings):
        rate: float = setting(1, absent=0)
        choice: bool | str = setting("auto", absent=False)
        times: bool | int = setting(1)

    assert make_identity(Numbers(rate=0.0, choice=False)) == {}
    assert make_identity(Numbers(rate=0.0, choice=False, times=True)) == {"times": True}
    assert make_identity(Numbers(rate=1.0, choice=True)) == {"rate": 1.0, "choice": True}


def test_absent_of_a_registered_class_is_a_name() -> None:
    with pytest.raises(TypeError, match="a registered name"):
        setting(3, kind="position")


@pytest.mark.parametrize("name", ["name", "revision"])
def test_names_that_are_taken(name) -> None:
    with pytest.raises(TypeError, match=f"cannot have a field named {name}"):
        type("Bad", (Settings,), {"__annotations__": {name: int}, name: setting(1)})


# Revisions ------------------------------------------------------------------------------------------------------------


def revised(cls: type[Settings], revision: int = 2) -> type[Settings]:
    return type(cls.__name__, (cls,), {"revision": revision, "__module__": cls.__module__, "__doc__": cls.__doc__})


REVISED = [SetComplement, AttentionOnly, Decoder, Rope, Ema, Cosine, TrainingConfig, EvaluationConfig]


@pytest.mark.parametrize("cls", REVISED, ids=lambda cls: cls.__name__)
def test_a_revision_enters_both_names_and_is_recorded(monkeypatch, plain, cls) -> None:
    before = keys(plain)
    recorded = [MemberConfig.from_dict(sections).to_dict() for sections in plain]
    assert [describe_revisions(member) for member in recorded] == [[], []]
    put_in(monkeypatch, revised(cls))
    changed = [pair for pair, old in zip(keys(plain), before, strict=True) if pair != old]
    assert changed and all(names[i] not in [old[i] for old in before] for names in changed for i in (0, 1))
    assert sum(bool(describe_revisions(member)) for member in recorded) == len(changed)
    sentences = "".join(sentence for member in recorded for sentence in describe_revisions(member))
    assert f"{cls.name or cls.__name__} was revision 1 and is revision 2 today" in sentences
    today = [MemberConfig.from_dict(sections).to_dict() for sections in plain]
    assert [describe_revisions(member) for member in today] == [[], []]
    for member in today:
        assert (
            MemberConfig.from_dict(member).to_dict()
            == member
            == build_recorded_member(member, member["seed"]).to_dict()
        )


def test_a_revised_base_revises_what_derives_from_it() -> None:
    class Base(Settings):
        revision: ClassVar[int] = 2

    class Derived(Base):
        pass

    class RevisedToo(Base):
        revision = 2

    assert make_identity(Derived()) == {"revision": 2} and make_identity(RevisedToo()) == {"revision": 3}


@pytest.mark.parametrize("revision", [0, "2", True])
def test_a_revision_counts_from_one(revision) -> None:
    with pytest.raises(TypeError, match="a whole number from 1"):
        revised(Ema, revision)


def test_a_revision_is_not_something_to_ask_for(sections) -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        MemberConfig.from_dict(sections(model__revision=1))


# Records of older code ------------------------------------------------------------------------------------------------


WIDER = made(
    {"width": (int, {"default": 32, "low": 1}), "more": (float, {"default": 0.5, "absent": 0.25})}, AttentionOnly
)
LATER = [made({"more": (int, {"default": 2, "absent": 1})}, base) for base in (Rope, Ema, Cosine, TrainingConfig)]


@pytest.mark.parametrize("cls", [WIDER, *LATER], ids=lambda cls: cls.__name__)
def test_a_field_newer_than_a_record_has_its_absent_value(monkeypatch, plain, cls) -> None:
    recorded = [MemberConfig.from_dict(sections).to_dict() for sections in plain]
    before = keys(plain)
    put_in(monkeypatch, cls)
    members = [build_recorded_member(member, 0) for member in recorded]
    assert [(member.config_id, member.structural_key) for member in members] == before
    absent = "'more': 0.25" if cls is WIDER else "'more': 1"
    assert absent in str([member.to_dict() for member in members])
    assert keys(plain) != before, "the sweep file of then means something else today"


def test_a_record_is_read_back_equal(plain) -> None:
    for sections in plain:
        member = MemberConfig.from_dict({**sections, "seed": 5})
        assert build_recorded_member(member.to_dict(), 5) == member


def test_a_technical_field_is_known_by_its_dotted_key_and_part_of_the_id():
    inner = made({"padding": (int, {"default": 1, "technical": True}), "b": (int, {"default": 1})})
    outer = made({"part": (inner, {"kind": inner}), "c": (int, {"default": 1, "technical": True})})
    first, second = (outer(part=inner(padding=value)) for value in (2, 3))
    assert list(list_technical_keys(first)) == ["part.padding", "c"]
    assert compute_digest(make_identity(first)) != compute_digest(make_identity(second))
