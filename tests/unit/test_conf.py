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
import re

import fixtures
from oslo_config import cfg, generator

from nova_numa_guard import conf, confinement, isolation, tuning
from tests.unit import base

DEFAULTS = {
    'isolation': 'none',
    'isolation_mode': 'enforce',
    'mixed_hosts': 'dominant',
    'isolation_on_moves': 'prefer',
    'weight_multiplier': 100.0,
    'floating_cells': '',
    'floating_memory_mode': 'restrictive',
    'numatune': 'guard',
    'small_page_policy': 'auto',
    'accounting': True,
    'page_check': 'enforce',
    'page_check_on_restart': 'enforce',
    'page_wait': 60,
    'host_boot_wait': 120,
    'refusal_ttl': 300,
    'metrics_port': 0,
    'metrics_address': '127.0.0.1',
    'metrics_textfile': '',
    'unsupported_nova': 'refuse',
}
WORDS = {
    'isolation': ('none', 'host', 'cell'),
    'isolation_mode': ('enforce', 'warn'),
    'mixed_hosts': ('dominant', 'closed', 'open'),
    'isolation_on_moves': ('prefer', 'enforce'),
    'floating_memory_mode': ('restrictive', 'strict'),
    'numatune': ('guard', 'stock'),
    'small_page_policy': ('auto', 'preferred', 'local', 'strict'),
    'page_check': ('enforce', 'warn', 'off'),
    'page_check_on_restart': ('enforce', 'warn', 'off'),
    'unsupported_nova': ('refuse', 'warn'),
}
MUTABLE = {
    'isolation_mode',
    'mixed_hosts',
    'isolation_on_moves',
    'page_check',
    'page_check_on_restart',
}


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
        self.assertEqual(DEFAULTS, dict(loaded.numa_guard.items()))

    def test_a_bad_value_names_option_value_and_what_is_allowed(self):
        for name, allowed in WORDS.items():
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
        for opt in conf.OPTS:
            loaded = self.load(**{opt.name: '\u2620'})
            self.assertRaises(ValueError, conf.validate, loaded)

    def test_every_word_is_good(self):
        for name, words in WORDS.items():
            for word in words:
                loaded = self.load(**{name: word})
                conf.validate(loaded)
                self.assertEqual(word, loaded.numa_guard[name])

    def test_the_words_are_those_of_the_core(self):
        """Which is made of them without asking."""
        for name, enum in (
            ('isolation', isolation.Isolation),
            ('mixed_hosts', isolation.MixedHosts),
            ('floating_memory_mode', confinement.Mode),
            ('small_page_policy', tuning.SmallPagePolicy),
        ):
            self.assertEqual({*WORDS[name]}, {each.value for each in enum})

    def test_the_least_that_a_number_may_be(self):
        for name, good, bad in (
            ('weight_multiplier', ('0', '0.5', '100000'), '-0.1'),
            ('refusal_ttl', ('0', '1'), '-1'),
        ):
            for value in good:
                loaded = self.load(**{name: value})
                conf.validate(loaded)
                self.assertEqual(float(value), loaded.numa_guard[name])
            exc = self.assertRaises(
                cfg.ConfigFileValueError,
                conf.validate,
                self.load(**{name: bad}),
            )
            self.assertIn(f'[numa_guard] {name}', str(exc))
            self.assertIn('greater than or equal to 0', str(exc))

    def test_floating_cells(self):
        for value in ('', '0', '17', '0,2', '0-1,4', '0-3,8-11'):
            loaded = self.load(floating_cells=value)
            conf.validate(loaded)
            self.assertEqual(value, loaded.numa_guard.floating_cells)

    def test_floating_cells_that_are_not_numbers(self):
        """Found in all of the text, not somewhere in it."""
        for value in ('x', '0x', 'x0', '0,', ',0', '0-', '-1', '0,^1', '0 1'):
            exc = self.assertRaises(
                cfg.ConfigFileValueError,
                conf.validate,
                self.load(floating_cells=value),
            )
            self.assertIn('[numa_guard] floating_cells', str(exc))
            self.assertIn(repr(value), str(exc))

    def test_where_metrics_are_shown(self):
        for name, good, bad in (
            ('metrics_port', ('0', '9180', '65535'), ('-1', '65536', 'http')),
            (
                'metrics_address',
                ('127.0.0.1', '::', 'host1.example.org'),
                ('127.0.0.1:9180', 'a b', '256.0.0.1'),
            ),
            (
                'metrics_textfile',
                ('', '/var/lib/node_exporter/numa_guard.prom'),
                ('/a.prom.txt', '/a.PROM', '/a', 'a.prom', '.prom'),
            ),
        ):
            for value in good:
                loaded = self.load(**{name: value})
                conf.validate(loaded)
                self.assertEqual(value, str(loaded.numa_guard[name]))
            for value in bad:
                exc = self.assertRaises(
                    cfg.ConfigFileValueError,
                    conf.validate,
                    self.load(**{name: value}),
                )
                self.assertIn(f'[numa_guard] {name}', str(exc))

    def others(self):
        """A value other than its default, for each option."""
        return {
            'weight_multiplier': '1',
            'floating_cells': '0',
            'accounting': 'false',
            'page_wait': '1',
            'host_boot_wait': '1',
            'refusal_ttl': '1',
            'metrics_port': '9180',
            'metrics_address': '::1',
            'metrics_textfile': '/a.prom',
            **{
                name: next(word for word in words if word != DEFAULTS[name])
                for name, words in WORDS.items()
            },
        }

    def test_modes_change_while_the_service_runs(self):
        loaded = self.load()
        others = self.others()
        self.write(**{name: others[name] for name in MUTABLE})
        self.assertEqual(
            {('numa_guard', name) for name in MUTABLE},
            set(loaded.mutate_config_files()),
        )
        for name in MUTABLE:
            self.assertEqual(others[name], loaded.numa_guard[name])

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
        others = self.others()
        self.assertEqual(DEFAULTS.keys(), others.keys())
        for name in MUTABLE:
            del others[name]
        self.write(**others)
        self.assertEqual({}, loaded.mutate_config_files())
        self.assertEqual(DEFAULTS, dict(loaded.numa_guard.items()))

    def test_registering_twice(self):
        loaded = cfg.ConfigOpts()
        conf.register_opts(loaded)
        conf.register_opts(loaded)
        self.assertIn('numa_guard', loaded)

    def test_list_opts(self):
        [(group, opts)] = conf.list_opts()
        self.assertEqual('numa_guard', group.name)
        self.assertEqual([*DEFAULTS], [opt.name for opt in opts])

    def test_every_option_is_explained(self):
        for opt in conf.OPTS:
            self.assertTrue(opt.help and opt.help.strip(), opt.name)
            if opt.name in WORDS:
                self.assertEqual(WORDS[opt.name], (*opt.type.choices,))
                self.assertTrue(all(opt.type.choices.values()), opt.name)

    def test_related_options_exist(self):
        for opt in conf.OPTS:
            for name in re.findall(r'\[numa_guard\] (\w+)', opt.help):
                self.assertIn(name, DEFAULTS)

    def test_what_can_be_changed_says_how(self):
        for opt in conf.OPTS:
            self.assertIs(opt.name in MUTABLE, opt.mutable, opt.name)
            if opt.mutable:
                self.assertRegex(
                    opt.help, 'SIGHUP|like\\s+``(isolation_mode|page_check)``'
                )


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
