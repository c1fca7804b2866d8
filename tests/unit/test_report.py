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

"""What a compute host tells the scheduler, and what may come instead."""

import copy
import dataclasses
import json

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import (
    confinement,
    guests,
    isolation,
    occupancy,
    refusals,
    report,
    tuning,
    writing,
)
from tests.unit import base

NATURAL = st.integers(0, 1 << 40)
NODE = st.integers(0, 1023)
SIZE = st.sampled_from([64, 2048, 32768, 1048576, 16777216])
SHARE = st.builds(occupancy.Share, NATURAL, NATURAL, NATURAL)
CELLS = st.builds(
    report.FloatingCells,
    st.lists(NODE, unique=True).map(tuple),
    NATURAL,
    NATURAL,
)
CORRECTION = st.builds(
    occupancy.Correction,
    reserved_memory=NATURAL,
    reserved_cpus=NATURAL,
    unseen_memory=NATURAL,
    unseen_vcpus=st.integers(-(1 << 20), 1 << 20),
    exempt_floating=SHARE,
    exempt_affined=SHARE,
)
NODES = st.frozensets(NODE, min_size=1, max_size=5)
WRITING = st.builds(
    writing.Writing,
    st.none() | st.sampled_from(tuning.SmallPagePolicy),
    st.none()
    | st.builds(
        confinement.Confinement,
        NODES,
        NODES,
        st.sampled_from(confinement.Mode),
    ),
)


@st.composite
def reports(draw):
    kind = draw(st.sampled_from(isolation.Isolation))
    return report.Report(
        isolation=kind,
        enforce=draw(st.booleans()),
        correction=draw(CORRECTION),
        floating=draw(SHARE),
        affined=draw(SHARE),
        dominant=draw(st.none() | st.sampled_from(guests.Kind)),
        small_memory=draw(st.none() | NATURAL),
        floating_cells=(
            draw(CELLS) if kind is isolation.Isolation.CELL else None
        ),
        headroom=draw(
            st.dictionaries(
                SIZE, st.dictionaries(NODE, NATURAL, max_size=3), max_size=3
            )
        ),
        refused=draw(
            st.lists(
                st.builds(refusals.Refusal, NODE, SIZE, st.floats(0, 4e9)),
                max_size=3,
            ).map(tuple)
        ),
        written=draw(WRITING),
    )


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(['none', 'cell', 'floating', '1', '-1']),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(['version', 'reserved', '0', '2048', 'x']), inner
        )
    ),
    max_leaves=8,
)

SMALLEST = report.Report(
    isolation.Isolation.NONE, False, occupancy.Correction(512)
)
FULL = report.Report(
    isolation=isolation.Isolation.CELL,
    enforce=True,
    correction=occupancy.Correction(
        reserved_memory=512,
        reserved_cpus=2,
        unseen_memory=1024,
        unseen_vcpus=-3,
        exempt_floating=occupancy.Share(1, 2, 3),
        exempt_affined=occupancy.Share(4, 5, 6),
    ),
    floating=occupancy.Share(7, 8, 9),
    affined=occupancy.Share(10, 11, 12),
    dominant=guests.Kind.AFFINED,
    small_memory=4096,
    floating_cells=report.FloatingCells((0, 2), 14, 2048),
    headroom={2048: {0: 100, 2: 0}, 1048576: {0: 1}},
    refused=(refusals.Refusal(2, 2048, 1800000000.5),),
    written=writing.Writing(
        tuning.SmallPagePolicy.LOCAL,
        confinement.Confinement(frozenset({0, 2}), frozenset({1, 2, 3, 9})),
    ),
)
FULL_RECORD = {
    'version': 1,
    'isolation': 'cell',
    'enforce': True,
    'reserved': [512, 2],
    'unseen': [1024, -3],
    'floating': [7, 8, 9],
    'affined': [10, 11, 12],
    'exempt_floating': [1, 2, 3],
    'exempt_affined': [4, 5, 6],
    'dominant': 'affined',
    'small_memory': 4096,
    'floating_cells': [[0, 2], 14, 2048],
    'headroom': {'2048': {'0': 100, '2': 0}, '1048576': {'0': 1}},
    'refusals': [[2, 2048, 1800000000.5]],
    'writing': ['local', ['0,2', '1-3,9', 'restrictive']],
}


def places(record, path=()):
    """Where in a record something else may stand, as paths."""
    items = ()
    if isinstance(record, dict):
        items = record.items()
    elif isinstance(record, list):
        items = enumerate(record)
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


PLACES = sorted(places(FULL_RECORD), key=str)


def without(*path):
    """The full record with something missing."""
    record = copy.deepcopy(FULL_RECORD)
    *way, last = path
    inner = record
    for key in way:
        inner = inner[key]
    del inner[last]
    return record


def changed(value, *path):
    """The full record with something else in a place."""
    record = copy.deepcopy(FULL_RECORD)
    *way, last = path
    inner = record
    for key in way:
        inner = inner[key]
    inner[last] = value
    return record


class ReportTest(base.TestCase):
    def assert_unsound(self, text):
        if isinstance(text, dict):
            text = json.dumps(text)
        self.assertRaises(ValueError, report.decode, text)

    def test_the_text(self):
        """Other versions read it, so it must not change by accident."""
        self.assertEqual(FULL_RECORD, json.loads(report.encode(FULL)))
        self.assertEqual(
            {
                'version': 1,
                'isolation': 'none',
                'enforce': False,
                'reserved': [512, 0],
                'unseen': [0, 0],
                'floating': [0, 0, 0],
                'affined': [0, 0, 0],
                'exempt_floating': [0, 0, 0],
                'exempt_affined': [0, 0, 0],
                'dominant': None,
                'small_memory': None,
                'floating_cells': None,
                'headroom': {},
                'refusals': [],
                'writing': [None, None],
            },
            json.loads(report.encode(SMALLEST)),
        )

    def test_the_guard_s_version(self):
        """Hosts that do not say it are read as before, and so are others."""
        known = dataclasses.replace(FULL, guard='1.2.3')
        text = report.encode(known)
        self.assertEqual(FULL_RECORD | {'guard': '1.2.3'}, json.loads(text))
        self.assertEqual(known, report.decode(text))
        self.assertEqual('', report.decode(json.dumps(FULL_RECORD)).guard)

    def test_the_key_in_the_stats(self):
        self.assertEqual('numa_guard', report.STATS_KEY)

    def test_the_version_comes_first(self):
        self.assertTrue(report.encode(FULL).startswith('{"version":1,'))

    def test_what_was_written_is_what_is_read(self):
        for record in (SMALLEST, FULL):
            self.assertEqual(record, report.decode(report.encode(record)))

    @hypothesis.given(reports())
    def test_round_trip(self, record):
        self.assertEqual(record, report.decode(report.encode(record)))

    def test_it_fits_the_column(self):
        """All stats of a host share one column of text, of 64 KiB."""
        nodes, sizes = range(16), (2048, 32768, 1048576)
        share = occupancy.Share(9999, 1 << 32, 99999)
        large = report.Report(
            isolation=isolation.Isolation.CELL,
            enforce=True,
            correction=occupancy.Correction(
                1 << 24, 999, 1 << 32, -99999, share, share
            ),
            floating=share,
            affined=share,
            dominant=guests.Kind.FLOATING,
            small_memory=1 << 32,
            floating_cells=report.FloatingCells(
                tuple(nodes[:15]), 1920, 1 << 32
            ),
            headroom={size: dict.fromkeys(nodes, 1 << 24) for size in sizes},
            refused=tuple(
                refusals.Refusal(node, size, 1800000000.1234567)
                for node in nodes
                for size in sizes
            ),
        )
        text = report.encode(large)
        self.assertLess(len(text.encode()), 4096)
        self.assertEqual(large, report.decode(text))
        self.assertLess(len(report.encode(SMALLEST)), 512)

    def test_no_record(self):
        self.assertIsNone(report.decode(None))

    def test_another_version_is_left_alone(self):
        """A newer host need not say what this version knows."""
        for version in (0, 2, 99):
            self.assertIsNone(report.decode(json.dumps({'version': version})))
            self.assertIsNone(
                report.decode(json.dumps({**FULL_RECORD, 'version': version}))
            )

    def test_more_than_we_know_is_ignored(self):
        self.assertEqual(
            FULL, report.decode(json.dumps({**FULL_RECORD, 'new': []}))
        )

    def test_not_a_record(self):
        for text in ('', 'x', '[]', '[1]', '1', '"x"', 'null', '{}', b'{}', 3):
            self.assert_unsound(text)

    def test_a_part_is_missing(self):
        for path in (
            *((key,) for key in FULL_RECORD),
            ('reserved', 1),
            ('unseen', 0),
            ('floating', 2),
            ('exempt_affined', 0),
            ('floating_cells', 0),
            ('refusals', 0, 1),
        ):
            self.assert_unsound(without(*path))

    def test_one_less_of_several(self):
        for path in (
            ('refusals', 0),
            ('floating_cells', 0, 1),
            ('headroom', '2048'),
            ('headroom', '2048', '0'),
        ):
            self.assertIsNotNone(report.decode(json.dumps(without(*path))))

    def test_a_part_too_many(self):
        for path in (
            ('reserved', 2),
            ('unseen', 2),
            ('floating', 3),
            ('exempt_affined', 3),
            ('floating_cells', 3),
            ('refusals', 0, 3),
        ):
            record = copy.deepcopy(FULL_RECORD)
            inner = record
            for key in path[:-1]:
                inner = inner[key]
            inner.append(1)
            self.assert_unsound(record)

    def test_figures_below_zero(self):
        for path in PLACES:
            value = FULL_RECORD
            for key in path:
                value = value[key]
            if (
                isinstance(value, int)
                and path[0] not in ('version', 'enforce', 'refusals')
                and path != ('unseen', 1)
            ):
                self.assert_unsound(changed(-1, *path))
        self.assertEqual(
            -1,
            report.decode(
                json.dumps(changed(-1, 'unseen', 1))
            ).correction.unseen_vcpus,
        )

    def test_figures_that_cannot_be(self):
        """Of JSON's numbers, and Python's idea of them."""
        good = json.dumps(FULL_RECORD)
        for old in ('512', '-3', '4096', '14', '100', '"version": 1'):
            key = old[: -len(old.split()[-1])]
            for figure in ('Infinity', '-Infinity', 'NaN', '1e999', '"x"'):
                self.assertIn(old, good)
                self.assert_unsound(good.replace(old, key + figure, 1))

    def test_words_that_we_do_not_know(self):
        for path in (('isolation',), ('dominant',)):
            for word in ('', 'x', 'HOST', [], {}, 1, True):
                self.assert_unsound(changed(word, *path))

    def test_cells_and_isolation_have_to_agree(self):
        self.assert_unsound(changed(None, 'floating_cells'))
        for by in ('none', 'host'):
            self.assert_unsound(changed(by, 'isolation'))

    def test_nesting_without_end(self):
        self.assert_unsound('[' * 100000)
        self.assert_unsound('{"version":' * 100000)

    def test_a_number_without_end(self):
        self.assert_unsound(
            json.dumps(FULL_RECORD).replace('512', '9' * 10000)
        )

    def test_the_error_is_short_and_shows_the_text(self):
        exc = self.assertRaises(ValueError, report.decode, 'junk' * 1000)
        self.assertIn('not a record of the guard', str(exc))
        self.assertIn('junkjunk', str(exc))
        self.assertLess(len(str(exc)), 300)

    def assert_sound_or_refused(self, text):
        """A ValueError, None, or a record with figures in it."""
        try:
            record = report.decode(text)
        except ValueError:
            return
        if record is None:
            return
        fix = record.correction
        self.assertIsInstance(record.isolation, isolation.Isolation)
        self.assertIsInstance(record.enforce, bool)
        self.assertIsInstance(fix.unseen_vcpus, int)
        figures = [fix.reserved_memory, fix.reserved_cpus, fix.unseen_memory]
        for share in (
            record.floating,
            record.affined,
            fix.exempt_floating,
            fix.exempt_affined,
        ):
            figures += dataclasses.astuple(share)
        if record.small_memory is not None:
            figures.append(record.small_memory)
        if record.floating_cells is not None:
            cells = record.floating_cells
            figures += [*cells.cells, cells.cpus, cells.memory]
        for nodes in record.headroom.values():
            figures += nodes.values()
        for figure in figures:
            self.assertIsInstance(figure, int)
            self.assertGreaterEqual(figure, 0)
        for refusal in record.refused:
            self.assertIsInstance(refusal.expires, float)

    @hypothesis.given(
        st.none()
        | st.text()
        | st.binary()
        | JSON
        | JSON.map(json.dumps)
        | st.dictionaries(st.sampled_from([*FULL_RECORD]), JSON).map(
            lambda record: json.dumps({**FULL_RECORD, **record})
        )
    )
    def test_anything_else_is_a_value_error(self, text):
        self.assert_sound_or_refused(text)

    @hypothesis.settings(max_examples=500)
    @hypothesis.given(st.sampled_from(PLACES), JSON)
    def test_anything_in_any_place(self, path, value):
        self.assert_sound_or_refused(json.dumps(changed(value, *path)))

    @hypothesis.given(st.integers(0, len(json.dumps(FULL_RECORD)) - 1))
    def test_a_text_that_was_cut_off(self, length):
        self.assert_unsound(json.dumps(FULL_RECORD)[:length])
