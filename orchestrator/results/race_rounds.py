"""Describe the rounds of a race: trained members, the deciding rule, survivors."""

from orchestrator.record.state.race import Race, Round, RungDecision
from orchestrator.text.wording import format_count, format_ranges


def describe_round(race_round: Round, has_ended: bool) -> str:
    """Return a round as a sentence: "seeds 0-1 of 8 configurations: 4 stay, by median"."""
    trained = (
        f"seeds {format_ranges(race_round.new_seeds)} of {format_count(len(race_round.contenders), 'configuration')}"
    )
    if race_round.decision is None:
        return f"{trained}: {'the last round' if has_ended else 'not decided yet'}"
    return f"{trained}: {len(race_round.decision.survivors)} stay, by {describe_rule(race_round)}"


def describe_rung(rung: RungDecision) -> str:
    """Return a rung as a sentence: "4 of 8 configurations train on, 1 of them kept by the guard"."""
    guarded = f", {len(rung.guarded)} of them kept by the guard" if rung.guarded else ""
    return f"{len(rung.survivors)} of {format_count(len(rung.values), 'configuration')} train on{guarded}"


def describe_rule(race_round: Round) -> str:
    """Return the rule that decided a round: "median" or "rank sum (p = 0.012)"; empty before the decision."""
    if (decision := race_round.decision) is None:
        return ""
    return decision.by if decision.p is None else f"{decision.by} (p = {decision.p:.2g})"


def describe_race(race: Race) -> str:
    """Return a sentence on the members that a race has trained and on its ranks, without a final full stop."""
    # Seeds are cumulative, because a configuration keeps its seeds of earlier rounds.
    seed_count = 0
    round_texts = []
    for race_round in race.rounds:
        seed_count += len(race_round.new_seeds)
        round_texts.append(
            f"{format_count(seed_count, 'seed')} of {format_count(len(race_round.contenders), 'configuration')}"
        )

    # Ranks follow the medians only within a round, and readers may not expect this.
    members, all_members = race.member_count, race.member_count_without_race
    share = f"{members:,} of {all_members:,} members ({100 * members / all_members:.0f} %)"
    rank = "Configurations that left in an earlier round are ranked behind those that stayed, whatever their medians"
    state = "" if race.has_ended else "; the race has not ended"
    return f"A race over seeds had {', then '.join(round_texts)}: {share}{state}. {_describe_pruned(race)}{rank}"


def _describe_pruned(race: Race) -> str:
    """Return a sentence on the pruned configurations of the first round and the steps saved; empty without rungs."""
    if not race.rungs:
        return ""

    # A configuration that the guard kept at several rungs counts once.
    pruned_texts = [f"{len(rung.pruned)} at step {rung.step:,}" for rung in race.rungs]
    guarded = len({name for rung in race.rungs for name in rung.guarded})
    saved_steps = race.member_steps_saved
    total_steps = race.member_steps_of_first_round
    return (
        f"Configurations pruned during training: {', '.join(pruned_texts)}; kept by the guard at least once: "
        f"{guarded}. That saved {saved_steps:,} of {total_steps:,} member-steps of the first round. They have no rank, "
        "no effect and no comparison. "
    )
