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

"""The options of [numa_guard]."""

import os
import pathlib

import fixtures
from oslo_config import cfg, generator

from nova_numa_guard import conf
from tests.unit import base


class ConfTest(base.TestCase):
    """On a configuration of its own, read from a file."""

    def load(self, **options):
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )
        self.write(**options)
        loaded = cfg.ConfigOpts()
        conf.register_opts(loaded)
        loaded(
            [],
            project='nova',
            default_config_files=[self.path],
            default_config_dirs=[],
        )
        return loaded

    def write(self, **options):
        with open(self.path, 'w') as f:
            f.write('[numa_guard]\n')
            f.writelines(f'{name} = {val}\n' for name, val in options.items())

    def test_defaults_are_valid(self):
        loaded = self.load()
        conf.validate(loaded)
        self.assertEqual(
            {
                'isolation': 'none',
                'isolation_mode': 'enforce',
                'weight_multiplier': 100.0,
                'numatune': 'guard',
                'small_page_policy': 'auto',
                'page_check': 'enforce',
            },
            dict(loaded.numa_guard.items()),
        )

    def test_a_bad_value_names_option_value_and_what_is_allowed(self):
        for name, allowed in (
            ('isolation', ('none', 'host')),
            ('isolation_mode', ('enforce', 'warn')),
            ('numatune', ('guard', 'stock')),
            ('small_page_policy', ('auto', 'preferred', 'local', 'strict')),
            ('page_check', ('enforce', 'warn', 'off')),
        ):
            loaded = self.load(**{name: 'perhaps'})
            exc = self.assertRaises(
                cfg.ConfigFileValueError, conf.validate, loaded
            )
            for part in (f'[numa_guard] {name}', 'perhaps', *allowed):
                self.assertIn(part, str(exc))

    def test_a_multiplier_that_is_no_number(self):
        loaded = self.load(weight_multiplier='many')
        exc = self.assertRaises(
            cfg.ConfigFileValueError, conf.validate, loaded
        )
        self.assertIn('[numa_guard] weight_multiplier', str(exc))
        self.assertIn('many', str(exc))

    def test_every_option_is_validated(self):
        """One that is not would fail at the first guest instead."""
        for opt in conf.SCHEDULER_OPTS + conf.COMPUTE_OPTS:
            loaded = self.load(**{opt.name: '\u2620'})
            self.assertRaises(ValueError, conf.validate, loaded)

    def test_good_values(self):
        loaded = self.load(
            isolation='host',
            isolation_mode='warn',
            weight_multiplier='-1',
            numatune='stock',
            small_page_policy='local',
            page_check='off',
        )
        conf.validate(loaded)
        self.assertEqual(-1.0, loaded.numa_guard.weight_multiplier)
        self.assertEqual('local', loaded.numa_guard.small_page_policy)

    def test_modes_change_while_the_service_runs(self):
        loaded = self.load()
        self.write(isolation_mode='warn', page_check='warn')
        self.assertEqual(
            {('numa_guard', 'isolation_mode'), ('numa_guard', 'page_check')},
            set(loaded.mutate_config_files()),
        )
        self.assertEqual('warn', loaded.numa_guard.isolation_mode)
        self.assertEqual('warn', loaded.numa_guard.page_check)

    def test_a_bad_value_does_not_take_over_a_running_service(self):
        loaded = self.load(page_check='warn')
        option = conf.LiveOption(loaded, 'page_check')
        self.assertEqual('warn', option.value)
        for _ in range(2):
            self.write(page_check='maybe')
            loaded.mutate_config_files()
            self.assertEqual('warn', option.value)
        [record] = self.log.at('ERROR')
        self.assertIn("page_check is bad, and 'warn' is used instead", record)
        self.assertIn("but found 'maybe'", record)
        self.write(page_check='off')
        loaded.mutate_config_files()
        self.assertEqual('off', option.value)

    def test_a_value_that_was_never_good(self):
        loaded = self.load(page_check='maybe')
        option = conf.LiveOption(loaded, 'page_check')
        self.assertRaises(ValueError, lambda: option.value)

    def test_nothing_else_changes_while_the_service_runs(self):
        loaded = self.load()
        self.write(
            isolation='host',
            numatune='stock',
            small_page_policy='strict',
            weight_multiplier='1',
        )
        self.assertEqual({}, loaded.mutate_config_files())
        self.assertEqual('none', loaded.numa_guard.isolation)
        self.assertEqual('guard', loaded.numa_guard.numatune)

    def test_registering_twice(self):
        loaded = cfg.ConfigOpts()
        conf.register_opts(loaded)
        conf.register_opts(loaded)
        self.assertIn('numa_guard', loaded)

    def test_list_opts(self):
        [(group, opts)] = conf.list_opts()
        self.assertEqual('numa_guard', group.name)
        self.assertEqual(
            {
                'isolation',
                'isolation_mode',
                'weight_multiplier',
                'numatune',
                'small_page_policy',
                'page_check',
            },
            {opt.name for opt in opts},
        )

    def test_every_option_is_explained(self):
        for opt in conf.SCHEDULER_OPTS + conf.COMPUTE_OPTS:
            self.assertTrue(opt.help and opt.help.strip(), opt.name)
            if isinstance(opt, cfg.StrOpt):
                self.assertTrue(opt.type.choices, opt.name)
                self.assertTrue(all(opt.type.choices.values()), opt.name)


class SampleTest(base.TestCase):
    def test_the_sample_file_is_what_the_options_say(self):
        """``tox -e genconfig`` writes it anew."""
        top = pathlib.Path(__file__).parents[2]
        folder = top / 'etc' / 'nova-numa-guard'
        generated = self.useFixture(fixtures.TempDir()).join('sample')
        settings = cfg.ConfigOpts()
        generator.register_cli_opts(settings)
        settings(
            [
                f'--config-file={folder / "config-generator.conf"}',
                f'--output-file={generated}',
            ]
        )
        generator.generate(settings)
        self.assertEqual(
            (folder / 'nova-numa-guard.conf.sample').read_text(),
            pathlib.Path(generated).read_text(),
        )
