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

"""What is checked where nova-scheduler and nova-api run."""

from unittest import mock

from nova import objects
from nova.api.validation.extra_specs import validators as novas
from oslo_upgradecheck import upgradecheck

from nova_numa_guard import failover, installed
from nova_numa_guard.cloud import hosts
from nova_numa_guard.status import (
    checks,
    failed_builds,
    fewest_hosts,
    filters,
    release,
    validators,
    weighers,
)
from tests.unit import base, samples
from tests.unit.status import configuration

Code = upgradecheck.Code
ALL = 'nova.scheduler.filters.all_filters'
WEIGHERS = 'nova.scheduler.weights.all_weighers'


class CheckTestCase(base.TestCase):
    def assert_found(self, check, code, *parts):
        """The result of a check, and what its details have in them."""
        result = check.run()
        self.assertEqual(code, result.code, result.details)
        for part in parts:
            self.assertIn(part, result.details)
        if not parts:
            self.assertIsNone(result.details)


class FilterTest(CheckTestCase):
    def found(self, code, available, enabled, *parts, **guard):
        conf = configuration.of(
            self,
            filter_scheduler={
                'available_filters': available,
                'enabled_filters': ','.join(enabled),
            },
            numa_guard={'isolation': 'host', **guard},
        )
        self.assert_found(filters.FilterCheck(conf), code, *parts)

    def test_all_is_well(self):
        self.found(
            Code.SUCCESS,
            [ALL, filters.PATH],
            ['ComputeFilter', 'NUMAGuardFilter', 'NUMATopologyFilter'],
        )

    def test_nothing_is_isolated(self):
        self.found(
            Code.SUCCESS,
            [ALL, filters.PATH],
            ['NUMAGuardFilter', 'NUMATopologyFilter'],
            'isolation is "none"',
            isolation='none',
        )

    def test_it_is_not_enabled(self):
        self.found(
            Code.WARNING,
            [ALL],
            ['NUMATopologyFilter'],
            'is not enabled',
            f'available_filters = {filters.PATH}',
        )

    def test_it_comes_too_late(self):
        self.found(
            Code.WARNING,
            [ALL, filters.PATH],
            ['NUMATopologyFilter', 'NUMAGuardFilter'],
            'comes after NUMATopologyFilter',
        )

    def test_nova_s_is_not_enabled(self):
        self.found(
            Code.WARNING,
            [ALL, filters.PATH],
            ['NUMAGuardFilter'],
            'NUMATopologyFilter is not enabled',
        )

    def test_nova_scheduler_would_not_start(self):
        enabled = ['NUMAGuardFilter', 'NUMATopologyFilter']
        self.found(
            Code.FAILURE, [ALL], enabled, 'NUMAGuardFilter is enabled, but not'
        )
        self.found(
            Code.FAILURE,
            [filters.PATH],
            enabled,
            'Enabled, but not available: NUMATopologyFilter.',
            ALL,
        )
        self.found(
            Code.FAILURE,
            [ALL, 'nova_numa_guard.nowhere.Filter'],
            enabled,
            'cannot be loaded',
            'nowhere',
        )

    def test_a_bad_option_is_another_check_s(self):
        error = self.assertRaises(
            checks.CannotCheckError,
            self.found,
            Code.SUCCESS,
            [ALL, filters.PATH],
            ['NUMAGuardFilter', 'NUMATopologyFilter'],
            isolation='bogus',
        )
        self.assertIn('[numa_guard] isolation', str(error))


class WeigherTest(CheckTestCase):
    def found(self, code, weights, *parts, **guard):
        conf = configuration.of(
            self,
            filter_scheduler={'weight_classes': ','.join(weights)},
            numa_guard=guard,
        )
        self.assert_found(weighers.WeigherCheck(conf), code, *parts)

    def test_all_is_well(self):
        self.found(Code.SUCCESS, [WEIGHERS, weighers.WEIGHER])
        self.found(
            Code.SUCCESS,
            ['nova.scheduler.weights.ram.RAMWeigher', weighers.WEIGHER],
        )

    def test_nova_s_are_gone(self):
        self.found(Code.WARNING, [weighers.WEIGHER], f'Add {WEIGHERS}')

    def test_it_is_not_there(self):
        self.found(
            Code.WARNING,
            [WEIGHERS],
            f'{weighers.WEIGHER} is not among',
            'will be mixed where they need not',
        )
        result = weighers.WeigherCheck(
            configuration.of(
                self,
                filter_scheduler={'weight_classes': WEIGHERS},
                numa_guard={'isolation_on_moves': 'enforce'},
            )
        ).run()
        self.assertNotIn('will be mixed', result.details)

    def test_it_is_turned_off(self):
        self.found(
            Code.WARNING,
            [WEIGHERS, weighers.WEIGHER],
            'weight_multiplier is 0',
            weight_multiplier=0,
        )

    def test_nova_scheduler_would_not_start(self):
        self.found(Code.FAILURE, ['nowhere.Weigher'], 'cannot be loaded')


class FailedBuildsTest(CheckTestCase):
    def found(self, code, multiplier, *parts, **guard):
        conf = configuration.of(
            self,
            filter_scheduler={
                'build_failure_weight_multiplier': multiplier,
                'weight_classes': f'{WEIGHERS},{weighers.WEIGHER}',
            },
            numa_guard=guard,
        )
        self.assert_found(failed_builds.FailedBuildsCheck(conf), code, *parts)

    def test_the_default(self):
        self.found(Code.SUCCESS, 1000000.0)

    def test_it_counts_more_than_isolation(self):
        self.found(
            Code.WARNING, 1e8, 'weight_multiplier above 100', 'are mixed'
        )
        self.found(Code.SUCCESS, 1e8 - 1)

    def test_pages_are_not_enforced(self):
        for mode in ('warn', 'off'):
            self.found(
                Code.WARNING,
                1000000.0,
                f'page_check is "{mode}"',
                page_check=mode,
            )
            self.found(Code.SUCCESS, 0.0, page_check=mode)


class ReleaseTest(CheckTestCase):
    def found(self, version, code, *parts, **guard):
        with mock.patch.object(installed, 'version', return_value=version):
            self.assert_found(
                release.ReleaseCheck(configuration.of(self, numa_guard=guard)),
                code,
                *parts,
            )

    def test_it(self):
        self.found('34.0.0', Code.SUCCESS)
        self.found('34.1.0.dev3', Code.WARNING, 'in development')
        self.found('35.0.0', Code.FAILURE, 'Nova 35.0.0', 'would not start')
        self.found(None, Code.FAILURE, 'unknown version')
        self.found(
            '35.0.0', Code.WARNING, 'starts all', unsupported_nova='warn'
        )


class ValidatorsTest(CheckTestCase):
    def test_they_are_there(self):
        self.assert_found(validators.ValidatorsCheck(), Code.SUCCESS)

    def test_one_is_not(self):
        with mock.patch.dict(novas.VALIDATORS):
            del novas.VALIDATORS['numa_guard:mem_policy']
            self.assert_found(
                validators.ValidatorsCheck(),
                Code.FAILURE,
                'extra specs numa_guard:mem_policy.',
            )


class FewestHostsTest(CheckTestCase):
    def fleet(self, *names, zone='nova', metadata=None, away='', silent=()):
        aggregate = objects.Aggregate(name='rack', metadata=metadata or {})
        found = []
        for name in names:
            state = samples.host_state()
            state.host, state.aggregates = name, [aggregate]
            found.append(hosts.Host(state, zone, away, ('rack',)))
        return hosts.Fleet(tuple(found), silent)

    def found(self, fleet, code, *parts, **guard):
        check = fewest_hosts.FewestHostsCheck(
            configuration.of(self, numa_guard=guard), lambda: fleet
        )
        self.assert_found(check, code, *parts)

    def test_nothing_is_isolated(self):
        self.found(self.fleet('a', 'b'), Code.SUCCESS)

    def test_three_will_do(self):
        self.found(self.fleet('a', 'b', 'c'), Code.SUCCESS, isolation='host')

    def test_two_will_not(self):
        self.found(
            self.fleet('a', 'b'),
            Code.WARNING,
            '- aggregate rack: a, b',
            '- zone nova: a, b',
            'may be mixed',
            isolation='host',
        )
        self.found(
            self.fleet('a', 'b'),
            Code.WARNING,
            'they are not evacuated',
            isolation='host',
            isolation_on_moves='enforce',
        )

    def test_an_aggregate_asks_for_it(self):
        fleet = self.fleet('a', metadata={'numa_guard:isolation': 'host'})
        self.found(fleet, Code.WARNING, '- aggregate rack: a')
        self.assertNotIn(
            'zone',
            fewest_hosts.FewestHostsCheck(
                configuration.of(self), lambda: fleet
            )
            .run()
            .details,
        )

    def test_hosts_that_are_away_do_not_count(self):
        fleet = self.fleet('a', 'b')
        more = self.fleet('c', away='disabled')
        self.found(
            hosts.Fleet(fleet.hosts + more.hosts),
            Code.WARNING,
            'zone nova: a, b',
            isolation='host',
        )

    def test_a_database_is_silent(self):
        """Hosts that are not seen may be enough."""
        check = fewest_hosts.FewestHostsCheck(
            configuration.of(self, numa_guard={'isolation': 'host'}),
            lambda: self.fleet('a', silent=('cell1',)),
        )
        error = self.assertRaises(checks.CannotCheckError, check.run)
        self.assertIn('cell1', str(error))


class FailoverTest(base.TestCase):
    def test_groups(self):
        found = failover.groups(
            [
                ('a', 'z1', {'x': True}),
                ('b', 'z1', {'x': True, 'y': False}),
                ('c', 'z2', {}),
            ],
            isolated=False,
        )
        self.assertEqual(
            [
                ('aggregate', 'x', {'a', 'b'}, True),
                ('aggregate', 'y', {'b'}, False),
                ('zone', 'z1', {'a', 'b'}, False),
                ('zone', 'z2', {'c'}, False),
            ],
            [(g.what, g.name, g.hosts, g.isolated) for g in found],
        )
        self.assertEqual((found[0],), failover.too_small(found))
