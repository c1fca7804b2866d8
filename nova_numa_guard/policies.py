# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Whose word counts: the scheduler's options, aggregates, the compute itself.

Pure: words in, one policy out.
"""

from collections.abc import Mapping
import dataclasses
import functools

from nova_numa_guard import guests, isolation

_ISOLATIONS = {
    'none': isolation.Isolation.NONE,
    'host': isolation.Isolation.HOST,
}
_MODES = {'warn': False, 'enforce': True}
_ACCEPTS = {
    'any': isolation.BOTH,
    'floating': frozenset({guests.Kind.FLOATING}),
    'affined': frozenset({guests.Kind.AFFINED}),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """What the metadata of one aggregate asks for; None is no wish.

    :param name: of the aggregate
    """

    name: str
    isolation: str | None = None
    isolation_mode: str | None = None
    accepts: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What holds for a host in the end.

    :param enforce: whether a host that breaks the policy is removed
    :param conflicts: what was asked for in vain, in words
    """

    isolation: isolation.Isolation
    enforce: bool
    accepts: frozenset[guests.Kind]
    conflicts: tuple[str, ...] = ()


KEYS = frozenset(
    f'numa_guard:{field.name}'
    for field in dataclasses.fields(Wish)
    if field.name != 'name'
)


def wish_of(name: str, metadata: Mapping[str, str]) -> Wish:
    """What an aggregate asks for.

    :param metadata: of the aggregate, with any of KEYS
    """
    return Wish(
        name,
        metadata.get('numa_guard:isolation'),
        metadata.get('numa_guard:isolation_mode'),
        metadata.get('numa_guard:accepts'),
    )


@functools.lru_cache(maxsize=4096)
def decide(
    configured: isolation.Isolation,
    enforce: bool,
    wishes: tuple[Wish, ...] = (),
    compute: isolation.Isolation | None = None,
) -> Decision:
    """Settle what holds for a host.

    The compute alone can isolate by cell, since it is what confines guests to
    cells: if it does, that holds, and if it does not, the scheduler's ``cell``
    means ``host``. Otherwise the strictest of all holds. An aggregate's mode
    replaces the scheduler's, and of several ``enforce`` holds. A host is for
    the kinds that all its aggregates accept.

    :param configured: the scheduler's ``isolation``
    :param enforce: the scheduler's ``isolation_mode``
    :param wishes: one for each aggregate of the host that has any
    :param compute: the compute's ``isolation``; None if it is not known
    """
    isolations, modes, accepts = (
        _words(wishes, key, known)
        for key, known in (
            ('isolation', _ISOLATIONS),
            ('isolation_mode', _MODES),
            ('accepts', _ACCEPTS),
        )
    )
    chosen, objections = _isolation(
        configured, compute, [_ISOLATIONS[word] for word in isolations.good]
    )
    accepted = isolation.BOTH
    for word in accepts.good:
        accepted &= _ACCEPTS[word]
    return Decision(
        isolation=chosen,
        enforce=(
            any(_MODES[word] for word in modes.good) if modes.good else enforce
        ),
        accepts=accepted,
        conflicts=(
            *isolations.conflicts,
            *objections,
            *modes.conflicts,
            *accepts.conflicts,
        ),
    )


def _isolation(
    configured: isolation.Isolation,
    compute: isolation.Isolation | None,
    wished: list[isolation.Isolation],
) -> tuple[isolation.Isolation, list[str]]:
    """The isolation that holds, and what was asked for in vain."""
    if compute is isolation.Isolation.CELL:
        if isolation.Isolation.HOST in wished:
            return compute, [
                'aggregates ask for isolation by host, but the compute '
                'isolates by cell, and that holds'
            ]
        return compute, []
    others = {configured, compute} - {None, isolation.Isolation.NONE}
    if others or isolation.Isolation.HOST in wished:
        objections = []
        if others and wished and isolation.Isolation.HOST not in wished:
            objections.append(
                'aggregates ask for no isolation, but [numa_guard] isolation '
                'does, and that holds'
            )
        return isolation.Isolation.HOST, objections
    return isolation.Isolation.NONE, []


@dataclasses.dataclass(frozen=True, slots=True)
class _Words:
    """What aggregates say about one thing: known words, and complaints."""

    good: frozenset[str]
    conflicts: tuple[str, ...]


def _words(
    wishes: tuple[Wish, ...], key: str, known: Mapping[str, object]
) -> _Words:
    said = {wish.name: word for wish in wishes if (word := getattr(wish, key))}
    conflicts = [
        f'aggregate {name} has numa_guard:{key}={word}, which is none of '
        f'{", ".join(known)} and is ignored'
        for name, word in sorted(said.items())
        if word not in known
    ]
    good = {name: word for name, word in said.items() if word in known}
    if len(set(good.values())) > 1:
        words = ', '.join(f'{n} says {w}' for n, w in sorted(good.items()))
        conflicts.append(f'aggregates disagree on numa_guard:{key}: {words}')
    return _Words(frozenset(good.values()), tuple(conflicts))
