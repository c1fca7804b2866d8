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

import json

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import report
from tests.unit import base

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(['version', 'reserved_memory', 'x']), inner
        )
    ),
    max_leaves=8,
)


class ReportTest(base.TestCase):
    def assert_unsound(self, text):
        self.assertRaises(ValueError, report.decode, text)

    def test_the_text(self):
        """Other versions read it, so it must not change by accident."""
        self.assertEqual(
            {'version': 1, 'reserved_memory': 512},
            json.loads(report.encode(report.Report(reserved_memory=512))),
        )

    def test_it_fits_the_column(self):
        """All stats of a host share one column of text, of 64 KiB."""
        text = report.encode(report.Report(reserved_memory=1 << 30))
        self.assertIsInstance(text, str)
        self.assertLess(len(text), 255)

    @hypothesis.given(st.integers(0, 1 << 40))
    def test_round_trip(self, reserved):
        record = report.Report(reserved_memory=reserved)
        self.assertEqual(record, report.decode(report.encode(record)))

    def test_no_record(self):
        self.assertIsNone(report.decode(None))

    def test_another_version_is_left_alone(self):
        """A newer host need not say what this version knows."""
        for version in (0, 2, 99):
            self.assertIsNone(report.decode(json.dumps({'version': version})))

    def test_more_than_we_know_is_ignored(self):
        self.assertEqual(
            report.Report(7),
            report.decode('{"version": 1, "reserved_memory": 7, "new": []}'),
        )

    def test_not_a_record(self):
        for text in ('', 'x', '[]', '[1]', '1', '"x"', 'null', '{}', b'{}', 3):
            self.assert_unsound(text)

    def test_a_record_without_its_figure(self):
        for figure in ('null', '"x"', '[]', '{}'):
            self.assert_unsound(
                f'{{"version": 1, "reserved_memory": {figure}}}'
            )
        self.assert_unsound('{"version": 1}')

    def test_figures_that_cannot_be(self):
        """Of JSON's numbers, and Python's idea of them."""
        for figure in ('-1', 'Infinity', '-Infinity', 'NaN', '1e999'):
            self.assert_unsound(
                f'{{"version": 1, "reserved_memory": {figure}}}'
            )
        for figure in ('Infinity', '-Infinity', 'NaN', '1e999'):
            self.assert_unsound(f'{{"version": {figure}}}')

    def test_nesting_without_end(self):
        self.assert_unsound('[' * 100000)

    def test_the_error_is_short_and_shows_the_text(self):
        exc = self.assertRaises(ValueError, report.decode, 'junk' * 1000)
        self.assertIn('not a record of the guard', str(exc))
        self.assertIn('junkjunk', str(exc))
        self.assertLess(len(str(exc)), 300)

    @hypothesis.given(
        st.none() | st.text() | st.binary() | JSON | JSON.map(json.dumps)
    )
    def test_anything_else_is_a_value_error(self, text):
        try:
            record = report.decode(text)
        except ValueError:
            return
        if record is not None:
            self.assertIsInstance(record.reserved_memory, int)
            self.assertGreaterEqual(record.reserved_memory, 0)
