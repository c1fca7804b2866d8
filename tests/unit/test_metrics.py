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

"""What Prometheus is shown, through each way out."""

import os
import pathlib
import socket
import threading
import urllib.request

import fixtures
import prometheus_client
from prometheus_client import parser

from nova_numa_guard import metrics, snapshot
from tests.unit import base

DOC = pathlib.Path(__file__).parents[2] / 'doc' / 'source' / 'metrics.rst'


def figures(node=0, page_size=2048, **pages):
    return snapshot.PoolFigures(node, page_size, **pages)


class MetricsTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.metrics = metrics.Metrics()
        self.addCleanup(self.metrics.stop)

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(
            f'numa_guard_{name}', labels
        )

    def series(self, text=None):
        """Samples by name and labels, but for when they began."""
        if text is None:
            text = prometheus_client.generate_latest(self.metrics.registry)
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in parser.text_string_to_metric_families(text.decode())
            for sample in family.samples
            if not sample.name.endswith('_created')
        }


class CountersTest(MetricsTestCase):
    def test_a_check_counts_once_for_each_page_size(self):
        self.metrics.checked('passed', (2048, 1048576, 2048), 0.001)
        self.metrics.checked('passed', [2048], 0.001)
        self.metrics.checked('refused', iter([2048]), 0.001)
        self.assertEqual(
            (2, 1, 1, 0),
            (
                self.value('checks_total', result='passed', page_size='2048'),
                self.value(
                    'checks_total', result='passed', page_size='1048576'
                ),
                self.value('checks_total', result='refused', page_size='2048'),
                self.value(
                    'checks_total', result='refused', page_size='1048576'
                ),
            ),
        )
        self.assertEqual(3, self.value('check_seconds_count'))
        self.assertEqual([], self.log.records)

    def assert_buckets(self, name, expected, method, *seconds):
        for value in seconds:
            method(value)
        found = {
            bound: self.value(f'{name}_bucket', le=bound) for bound in expected
        }
        self.assertEqual(expected, found)
        self.assertAlmostEqual(sum(seconds), self.value(f'{name}_sum'))

    def test_how_long_checks_take(self):
        self.assert_buckets(
            'check_seconds',
            {'5e-05': 1, '0.0001': 2, '5.0': 2, '10.0': 3, '+Inf': 4},
            lambda seconds: self.metrics.checked('passed', (), seconds),
            *(0.00004, 0.00009, 9, 11),
        )

    def test_how_long_starts_wait(self):
        self.assert_buckets(
            'wait_seconds',
            {'0.1': 1, '0.25': 2, '60.0': 2, '120.0': 3, '+Inf': 4},
            self.metrics.waited,
            *(0.09, 0.2, 119, 121),
        )

    def test_pools_that_were_short(self):
        for size, node in ((2048, 0), (2048, 1), (2048, 1), (1048576, 1)):
            self.metrics.failed(size, node)
        self.assertEqual(
            {
                ('numa_guard_failures_total', '0', '2048'): 1,
                ('numa_guard_failures_total', '1', '2048'): 2,
                ('numa_guard_failures_total', '1', '1048576'): 1,
            },
            {
                key: value
                for key, value in self.series().items()
                if 'failures' in key[0]
            },
        )

    def test_closed_sets_begin_with_zero(self):
        """Else Prometheus would not see the first of them."""
        self.metrics.unreadable('kernel')
        self.metrics.warned_then('failed')
        self.assertEqual(
            {
                ('numa_guard_unreadable_total', 'kernel'): 1,
                ('numa_guard_unreadable_total', 'libvirt'): 0,
                ('numa_guard_unreadable_total', 'process'): 0,
                ('numa_guard_unreadable_total', 'nova'): 0,
                ('numa_guard_warned_starts_total', 'started'): 0,
                ('numa_guard_warned_starts_total', 'failed'): 1,
            },
            {
                key: value
                for key, value in self.series().items()
                if 'unreadable' in key[0] or 'warned' in key[0]
            },
        )

    def test_a_word_that_is_in_no_set_makes_no_series(self):
        before = self.series()
        for _ in range(2):
            self.metrics.checked('perhaps', [2048], 0.001)
            self.metrics.unreadable('tea leaves')
            self.metrics.warned_then('perhaps')
        self.assertEqual(before, self.series())
        self.assertEqual(
            [
                "Metrics.checked() failed: ValueError(\"'perhaps' is not a "
                'valid Result")',
                "Metrics.unreadable() failed: ValueError(\"'tea leaves' is "
                'not a valid Source")',
                "Metrics.warned_then() failed: ValueError(\"'perhaps' is not "
                'a valid Outcome")',
            ],
            self.log.at('ERROR'),
        )

    def test_nothing_raises(self):
        for method in ('checked', 'failed', 'waited', 'observe', 'start'):
            count = {'checked': 3, 'failed': 2, 'observe': 3}.get(method, 1)
            getattr(self.metrics, method)(*(object() for _ in range(count)))
            getattr(self.metrics, method)()  # not even that
        self.assertTrue(self.log.at('ERROR'))

    def test_every_thread_counts(self):
        def count():
            for _ in range(500):
                self.metrics.checked('passed', [2048], 0.001)

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(
            2000, self.value('checks_total', result='passed', page_size='2048')
        )

    def test_two_hosts_in_one_process_are_apart(self):
        metrics.Metrics().unreadable('kernel')
        self.assertEqual(0, self.value('unreadable_total', source='kernel'))
        self.assertNotIn(b'numa_guard', prometheus_client.generate_latest())


class ObserveTest(MetricsTestCase):
    def gauges(self):
        return {
            key: value
            for key, value in self.series().items()
            if key[0].startswith(
                ('numa_guard_pool', 'numa_guard_guests', 'numa_guard_remote')
            )
        }

    def test_all_that_was_read(self):
        self.metrics.observe(
            iter(
                [
                    figures(
                        *(16, 2048),
                        total=64,
                        free=40,
                        configured=6,
                        reserved=8,
                        claimed=12,
                        unaccounted=4,
                    )
                ]
            ),
            {'guard': 3, 'stock': 0},
            {0: 4096, 16: 0},
        )
        self.assertEqual(
            {
                ('numa_guard_pool_total', '16', '2048'): 64,
                ('numa_guard_pool_free', '16', '2048'): 40,
                ('numa_guard_pool_configured', '16', '2048'): 6,
                ('numa_guard_pool_reserved', '16', '2048'): 8,
                ('numa_guard_pool_claimed', '16', '2048'): 12,
                ('numa_guard_pool_unaccounted', '16', '2048'): 4,
                ('numa_guard_guests', 'guard'): 3,
                ('numa_guard_guests', 'stock'): 0,
                ('numa_guard_remote_small_memory_bytes', '0'): 4096,
                ('numa_guard_remote_small_memory_bytes', '16'): 0,
            },
            self.gauges(),
        )
        self.assertEqual(
            64,
            self.value('pool_total', numa_node='16', page_size='2048'),
        )
        self.assertEqual([], self.log.records)

    def test_none_is_no_sample_and_zero_is_one(self):
        self.metrics.observe([figures(total=0)], {}, None)
        self.assertEqual(
            {('numa_guard_pool_total', '0', '2048'): 0}, self.gauges()
        )

    def test_before_the_first_audit(self):
        self.assertEqual({}, self.gauges())

    def test_what_the_last_audit_did_not_find_is_gone(self):
        self.metrics.observe(
            [figures(0, total=1, free=1), figures(1, total=1)],
            {'guard': 1, 'stock': 1},
            {0: 1},
        )
        self.metrics.observe([figures(1, total=2)], {'stock': 5}, None)
        self.assertEqual(
            {
                ('numa_guard_pool_total', '1', '2048'): 2,
                ('numa_guard_guests', 'stock'): 5,
            },
            self.gauges(),
        )

    def test_figures_that_are_none_do_not_leave_the_old_ones(self):
        """Nor do they break every scrape from then on."""
        for bad in ([figures(total='many')], [None], None):
            self.metrics.observe([figures(total=1)], {'guard': 1}, {0: 1})
            self.metrics.observe(bad, {'guard': 2}, {0: 2})
            self.assertEqual({}, self.gauges())
        self.assertIn('many', self.log.at('ERROR')[0])

    def test_counters_of_pools_begin_with_zero(self):
        """Else Prometheus would not see the first refusal."""
        self.metrics.observe([figures(3, 2048), figures(3, 64)], {}, None)
        self.metrics.failed(64, 3)
        self.metrics.observe([figures(3, 2048)], {}, None)
        series = self.series()
        for size in ('2048', '64'):
            for result in metrics.Result:
                key = 'numa_guard_checks_total', size, result.value
                self.assertEqual(0, series[key])
        self.assertEqual(0, series['numa_guard_failures_total', '3', '2048'])
        self.assertEqual(1, series['numa_guard_failures_total', '3', '64'])

    def test_counters_stay(self):
        self.metrics.unreadable('nova')
        self.metrics.observe([], {}, None)
        self.assertEqual(1, self.value('unreadable_total', source='nova'))


class TextfileTest(MetricsTestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.folder, 'numa_guard.prom')
        self.flags(metrics_textfile=self.path)

    def test_it_is_written_at_each_audit(self):
        self.metrics.start(base.CONF)
        for total in (1, 2):
            self.metrics.unreadable('kernel')
            self.metrics.observe([figures(total=total)], {}, None)
            series = self.series(pathlib.Path(self.path).read_bytes())
            self.assertEqual(
                (total, total),
                (
                    series['numa_guard_pool_total', '0', '2048'],
                    series['numa_guard_unreadable_total', 'kernel'],
                ),
            )
        self.assertEqual(['numa_guard.prom'], os.listdir(self.folder))
        self.assertEqual([], self.log.records)

    def test_it_is_written_when_nothing_could_be_read(self):
        self.metrics.start(base.CONF)
        self.metrics.observe([figures(total=1)], {}, None)
        self.metrics.observe(None, {}, None)
        series = self.series(pathlib.Path(self.path).read_bytes())
        self.assertNotIn(('numa_guard_pool_total', '0', '2048'), series)
        self.assertIn(('numa_guard_unreadable_total', 'kernel'), series)

    def test_it_is_off_unless_asked_for(self):
        self.flags(metrics_textfile='')
        self.metrics.start(base.CONF)
        self.metrics.observe([], {}, None)
        self.assertEqual([], os.listdir(self.folder))
        self.assertEqual([], self.log.records)

    def test_each_cause_is_logged_once(self):
        self.flags(metrics_textfile=f'{self.folder}/none/x.prom')
        self.metrics.start(base.CONF)
        # The text differs: the name of the temporary file has the thread's.
        for _ in range(2):
            thread = threading.Thread(
                target=self.metrics.observe, args=([], {}, None)
            )
            thread.start()
            thread.join()
        self.metrics.observe([], {}, None)
        [error] = self.log.at('ERROR')
        self.assertIn(
            f'Metrics are not written to {self.folder}/none/x.prom: ', error
        )
        self.assertIn('No such file', error)
        pathlib.Path(f'{self.folder}/none').touch()
        self.metrics.observe([], {}, None)
        self.assertEqual(2, len(self.log.at('ERROR')))
        self.assertIn('Not a directory', self.log.at('ERROR')[1])

    def test_it_recovers(self):
        self.flags(metrics_textfile=f'{self.folder}/late/x.prom')
        self.metrics.start(base.CONF)
        self.metrics.observe([], {}, None)
        os.mkdir(f'{self.folder}/late')
        self.metrics.observe([], {}, None)
        self.assertEqual(['x.prom'], os.listdir(f'{self.folder}/late'))


class ListenerTest(MetricsTestCase):
    def free_port(self):
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            return probe.getsockname()[1]

    def scrape(self, port, host='127.0.0.1'):
        # Whatever proxy the environment names.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f'http://{host}:{port}/metrics', timeout=10) as reply:
            return self.series(reply.read())

    def test_what_is_counted_is_served(self):
        port = self.free_port()
        self.flags(metrics_port=port)
        self.metrics.start(base.CONF)
        self.metrics.failed(2048, 1)
        self.metrics.observe([figures(total=3)], {}, None)
        series = self.scrape(port)
        self.assertEqual(1, series['numa_guard_failures_total', '1', '2048'])
        self.assertEqual(3, series['numa_guard_pool_total', '0', '2048'])
        self.assertEqual(
            {'numa_guard'}, {key[0][: len('numa_guard')] for key in series}
        )
        self.assert_logged(
            'INFO', f'Metrics are served on 127.0.0.1, port {port}'
        )

    def test_it_is_off_unless_asked_for(self):
        before = threading.active_count()
        self.metrics.start(base.CONF)
        self.assertEqual(before, threading.active_count())
        self.assertEqual([], self.log.records)

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.flags(metrics_port=port)
            self.metrics.start(base.CONF)
        self.assert_logged(
            'ERROR',
            f'Metrics are not served on 127.0.0.1, port {port}: [Errno 98] '
            'Address already in use',
        )
        self.assertEqual([], self.log.at('INFO'))

    def test_an_address_that_is_not_here(self):
        self.flags(metrics_port=self.free_port(), metrics_address='192.0.2.1')
        self.metrics.start(base.CONF)
        [error] = self.log.at('ERROR')
        self.assertIn('not served on 192.0.2.1', error)
        self.assertNotIn('\n', error)

    def test_the_file_is_written_though_the_port_is_taken(self):
        path = self.useFixture(fixtures.TempDir()).join('x.prom')
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            taken.listen()
            self.flags(
                metrics_port=taken.getsockname()[1], metrics_textfile=path
            )
            self.metrics.start(base.CONF)
        self.metrics.observe([], {}, None)
        self.assertTrue(os.path.exists(path))

    def test_starting_again_moves_it(self):
        first, second = self.free_port(), self.free_port()
        for port in (first, second):
            self.flags(metrics_port=port)
            self.metrics.start(base.CONF)
        self.assertTrue(self.scrape(second))
        self.assertRaises(OSError, self.scrape, first)

    def test_stopping_frees_the_port(self):
        port = self.free_port()
        self.flags(metrics_port=port)
        self.metrics.start(base.CONF)
        self.assertTrue(self.scrape(port))
        self.metrics.stop()
        self.assertRaises(OSError, self.scrape, port)
        self.metrics.start(base.CONF)
        self.assertTrue(self.scrape(port))
        self.assertEqual([], self.log.at('ERROR'))


class DocumentationTest(MetricsTestCase):
    """doc/source/metrics.rst has all of it."""

    def test_every_metric_with_its_type(self):
        text = DOC.read_text()
        for family in self.metrics.registry.collect():
            suffix = '_total' if family.type == 'counter' else ''
            self.assertRegex(
                text, rf'(?m)^``{family.name}{suffix}``\n {{2}}{family.type}'
            )

    def test_every_word(self):
        text = DOC.read_text()
        for words in (metrics.Result, metrics.Source, metrics.Outcome):
            for word in words:
                self.assertIn(f'``{word.value}``', text)
