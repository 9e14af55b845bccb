"""The rounds of a race in words: trained members, the deciding test, survivors."""

from orchestrator.record.state.race import Race, Round, RungDecision
from orchestrator.wording import counted, spans


def describe_round(one: Round, is_over: bool) -> str:
    """Return a round as a sentence: "seeds 0-1 of 8 configurations: 4 stay, by median"."""
    trained = f"seeds {spans(one.new_seeds)} of {counted(len(one.contenders), 'configuration')}"
    if one.decision is None:
        return f"{trained}: {'the last round' if is_over else 'not decided yet'}"
    return f"{trained}: {len(one.decision.survivors)} stay, by {decided_by(one)}"


def describe_rung(one: RungDecision) -> str:
    """Return a rung as a sentence: "4 of 8 configurations train on, 1 of them kept by the guard"."""
    guarded = f", {len(one.guarded)} of them kept by the guard" if one.guarded else ""
    return f"{len(one.survivors)} of {counted(len(one.values), 'configuration')} train on{guarded}"


def decided_by(one: Round) -> str:
    """Return what decided a round: "median", or "rank sum (p = 0.012)"; empty while nothing has."""
    if one.decision is None:
        return ""
    return one.decision.by if one.decision.p is None else f"{one.decision.by} (p = {one.decision.p:.2g})"


def race_sentence(race: Race) -> str:
    """Return how much the race has trained, and how its ranks are to be read."""
    seeds, parts = 0, []
    for one in race.rounds:
        seeds += len(one.new_seeds)
        parts.append(f"{counted(seeds, 'seed')} of {counted(len(one.contenders), 'configuration')}")
    share = f"{race.members:,} of {race.members_without:,} members ({100 * race.members / race.members_without:.0f} %)"
    rank = "Configurations that left in an earlier round are ranked behind those that stayed, whatever their medians"
    state = "" if race.is_over else ", and is not over"
    return f"A race over seeds had {', then '.join(parts)}: {share}{state}. {_pruned_sentence(race)}{rank}"


def _pruned_sentence(race: Race) -> str:
    """Return which configurations of the first round were pruned and what that saved; empty without rungs."""
    if not race.rungs:
        return ""
    pruned = [f"{len(one.pruned)} at step {one.step:,}" for one in race.rungs]
    guarded = len({name for one in race.rungs for name in one.guarded})
    saved, whole = race.member_steps_saved, race.member_steps_of_first_round
    return (
        f"Configurations pruned in the course of training: {', '.join(pruned)}; kept by the guard at least once: "
        f"{guarded}. That saved {saved:,} of {whole:,} member-steps of the first round. They are in no rank, no effect "
        "and no comparison. "
    )
