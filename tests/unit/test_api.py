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

"""The flavor extra specs of the guard, as nova-api validates them."""

from importlib import metadata

from nova import exception
from nova.api.validation.extra_specs import base as nova_base
from nova.api.validation.extra_specs import validators

from nova_numa_guard import api, guests, tuning
from tests.unit import base, samples

GROUP = 'nova.api.extra_spec_validators'


class ValidatorsTest(base.TestCase):
    """Nova loads them by the entry point of the installed package."""

    def refused(self, name, value):
        exc = self.assertRaises(
            exception.ValidationError, validators.validate, name, value
        )
        return str(exc)

    def test_nova_finds_them(self):
        [point] = [
            point
            for point in metadata.entry_points(group=GROUP)
            if point.name == 'numa_guard'
        ]
        self.assertIs(api, point.load())

    def test_nova_knows_them(self):
        for validator in api.register():
            self.assertIsInstance(validator, nova_base.ExtraSpecValidator)
            found = validators.VALIDATORS[validator.name]
            self.assertEqual(validator, found)
            self.assertTrue(found.description)
        self.assertIn('numa_guard', validators.NAMESPACES)

    def test_values_that_are_possible(self):
        validators.validate('numa_guard:isolation', 'exempt')
        for policy in ('auto', 'preferred', 'local', 'strict'):
            validators.validate('numa_guard:mem_policy', policy)

    def test_values_that_are_not(self):
        for value in ('', 'host', 'none', 'Exempt', 'exempt '):
            self.assertIn(
                f"'{value}' is not one of: exempt",
                self.refused('numa_guard:isolation', value),
            )
        for value in ('', 'restrictive', 'Strict', 'interleave'):
            self.assertIn(
                f"'{value}' is not one of: auto, preferred, local, strict",
                self.refused('numa_guard:mem_policy', value),
            )

    def test_keys_that_are_not(self):
        for name in (
            'numa_guard:isolation_mode',
            'numa_guard:accepts',
            'numa_guard:isolations',
            'numa_guard:',
        ):
            self.assertIn(name, self.refused(name, 'exempt'))

    def test_other_keys_are_not_ours(self):
        for name in ('numa:guard', 'numa_guards:x', 'other:key', 'key'):
            validators.validate(name, 'anything')

    def test_what_is_accepted_is_what_the_guard_reads(self):
        self.assertTrue(
            guests.is_exempt(samples.flavor(isolation='exempt').extra_specs)
        )
        by_name = {spec.name: spec.value for spec in api.register()}
        self.assertEqual(
            {'numa_guard:isolation', 'numa_guard:mem_policy'}, set(by_name)
        )
        for value in by_name['numa_guard:mem_policy']['enum']:
            tuning.SmallPagePolicy(value)
