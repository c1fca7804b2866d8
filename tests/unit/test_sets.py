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

"""Sets of numbers, as text."""

import hypothesis
from hypothesis import strategies as st
from nova.virt import hardware

from nova_numa_guard import sets
from tests.unit import base

NUMBERS = st.frozensets(st.integers(0, 300), min_size=1)


class ParseTest(base.TestCase):
    def test_numbers_and_ranges(self):
        for text, expected in (
            ('0', {0}),
            ('7', {7}),
            ('0,2', {0, 2}),
            ('0-2', {0, 1, 2}),
            ('0-1,8-9', {0, 1, 8, 9}),
            ('3-3', {3}),
            ('9,0-1', {0, 1, 9}),
            ('0-3,2-5', {0, 1, 2, 3, 4, 5}),
            ('10', {10}),
            (' 0 , 2-3 ', {0, 2, 3}),
        ):
            self.assertEqual(expected, sets.parse(text), text)

    def test_exceptions(self):
        for text, expected in (
            ('0-3,^2', {0, 1, 3}),
            ('0-3,^1-2', {0, 3}),
            ('0-3, ^0,^3', {1, 2}),
            ('0,^0', set()),
        ):
            self.assertEqual(expected, sets.parse(text), text)

    def test_an_exception_counts_from_where_it_stands(self):
        """As in libvirt's virBitmapParse()."""
        self.assertEqual({0, 1, 2}, sets.parse('0-2,^1,1'))

    def test_junk(self):
        for text in (
            '',
            ' ',
            ',',
            '0,',
            ',0',
            '0,,1',
            'x',
            '-',
            '-1',
            '1-',
            '3-1',
            '0-1-2',
            '0--1',
            '1.5',
            '0x1',
            '^',
            '1^',
            '0 1',
            '0;1',
            '\u00b2',
        ):
            exc = self.assertRaises(ValueError, sets.parse, text)
            self.assertEqual(f'not a set of numbers: {text!r}', str(exc))

    @hypothesis.given(st.text('0123456789-^, x', max_size=8))
    def test_anything_else_is_a_value_error(self, text):
        hypothesis.assume(not any(len(n) > 4 for n in text.split('-')))
        try:
            found = sets.parse(text)
        except ValueError:
            return
        self.assertTrue(all(number >= 0 for number in found))


class TextTest(base.TestCase):
    def test_runs_are_ranges(self):
        for numbers, expected in (
            ([], ''),
            ([0], '0'),
            ([0, 1], '0-1'),
            ([0, 1, 2, 3], '0-3'),
            ([0, 2], '0,2'),
            ([8, 1], '1,8'),
            ([8, 1, 0, 9, 3], '0-1,3,8-9'),
            ([9, 10, 100], '9-10,100'),
        ):
            self.assertEqual(expected, sets.text(numbers))

    def test_a_number_given_twice(self):
        self.assertEqual('0-1', sets.text([1, 0, 1, 0]))

    def test_a_generator_will_do(self):
        self.assertEqual('0-2', sets.text(n for n in (2, 1, 0)))

    @hypothesis.given(NUMBERS)
    def test_round_trip(self, numbers):
        self.assertEqual(numbers, sets.parse(sets.text(numbers)))

    @hypothesis.given(NUMBERS)
    def test_nova_reads_it_alike(self, numbers):
        self.assertEqual(numbers, hardware.parse_cpu_spec(sets.text(numbers)))
