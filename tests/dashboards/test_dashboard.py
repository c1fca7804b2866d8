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

"""The dashboard and the alerts, on a Prometheus that reads real exporters.

What a panel asks for is what Grafana would send, with its variables filled in
as they are at first: all jobs, all hosts, all page sizes.
"""

from oslo_serialization import jsonutils

from nova_numa_guard import metrics, snapshot
from tests.dashboards import base

VARIABLES = {
    '$job': '.*',
    '$instance': '.*',
    '$page_size': '.*',
    '$__rate_interval': '30s',
}
# What two hosts with all there is to see make of those panels that count.
COUNTED = {
    'Hosts that refused, last hour': 1,
    'Pools with pages of nobody': 1,
    'Hosts that cannot see': 1,
    'Mixed hosts': 1,
    'Hosts without failover': 1,
    'Guests that stock Nova bound': 2,
}


def panels():
    """Those that show something."""
    dashboard = jsonutils.loads(base.DASHBOARD.read_text())
    return [each for each in dashboard['panels'] if each['type'] != 'row']


def filled_in(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def audit(first, second):
    """What two hosts find: the first is mixed, and has pages of nobody."""
    first.observe(
        [
            base.pool(0, 256, 20, 16, 36, 200, 36),
            base.pool(1, 256, 156, 0, 0, 100, 0),
        ],
        {'guard': 3, 'stock': 2},
        {0: 4096},
        snapshot.Kinds('host', {'floating': 2 * base.GIB, 'affined': 600}),
    )
    second.observe(
        [base.pool(0, 256, 256, 0, 0, 0, 0)],
        {'confined': 1},
        {},
        snapshot.Kinds('cell', {'floating': base.GIB, 'affined': 1}),
    )


def count(host):
    """All that can happen on a host, once."""
    for result in metrics.Result:
        host.checked(result.value, [2048], 0.0004)
    host.failed(2048, 0)
    host.waited(2)
    for source in metrics.Source:
        host.unreadable(source.value)
    for outcome in metrics.Outcome:
        host.warned_then(outcome.value)


class DashboardTest(base.TestCase):
    def setUp(self):
        super().setUp()
        first, second = (self.useFixture(base.Exporter()) for _ in range(2))
        self.first = f'127.0.0.1:{first.port}'
        self.prometheus = self.useFixture(
            base.Prometheus(first.port, second.port)
        )
        audit(first.metrics, second.metrics)
        # An increase is one only if what was before has been read.
        self.until('numa_guard_checks_total', 10)
        count(first.metrics)
        self.until('numa_guard_checks_total > 0', len(metrics.Result))

    def until(self, expression, number):
        self.prometheus.wait(
            lambda: len(self.prometheus.query(expression)) == number,
            f'{expression}: not {number} series',
        )

    def test_every_panel_shows_what_there_is(self):
        """And every alert is on its way, on the one host that has cause."""
        empty, counted = [], {}
        for panel in panels():
            for target in panel['targets']:
                found = self.prometheus.query(filled_in(target['expr']))
                if not any(value == value for value in found.values()):
                    empty.append(f'{panel["title"]}: {target["expr"]}')
            if panel['type'] == 'stat':
                [counted[panel['title']]] = found.values()
        self.assertEqual([], empty)
        self.assertEqual(COUNTED, counted)
        self.assert_alerts()

    def assert_alerts(self):
        expected = {(name, self.first) for name in base.rules()}

        def alerts():
            return {
                (each['labels']['alertname'], each['labels']['instance'])
                for each in self.prometheus.get('alerts')['alerts']
            }

        self.prometheus.wait(lambda: len(alerts()) >= len(expected), 'alerts')
        self.assertEqual(expected, alerts())
        [group] = self.prometheus.get('rules')['groups']
        self.assertEqual({'ok'}, {rule['health'] for rule in group['rules']})

    def test_what_can_be_chosen(self):
        """label_values(metric, label), as Grafana asks for it."""
        dashboard = jsonutils.loads(base.DASHBOARD.read_text())
        seen = {}
        for variable in dashboard['templating']['list']:
            if variable['type'] != 'query':
                continue
            asked = filled_in(variable['query']['query'])
            self.assertRegex(asked, r'\Alabel_values\(.+, \w+\)\Z')
            selector, label = asked[len('label_values(') : -1].rsplit(', ', 1)
            seen[variable['name']] = {
                dict(labels)[label]
                for labels in self.prometheus.query(selector)
            }
        self.assertEqual({base.JOB}, seen['job'])
        self.assertEqual(2, len(seen['instance']))
        self.assertEqual({'2048'}, seen['page_size'])


class LayoutTest(base.TestCase):
    """What Grafana would not complain of, but show one over the other."""

    def setUp(self):
        super().setUp()
        self.dashboard = jsonutils.loads(base.DASHBOARD.read_text())

    def test_panels_have_a_place_of_their_own(self):
        taken = {}
        for panel in self.dashboard['panels']:
            place = panel['gridPos']
            for x in range(place['x'], place['x'] + place['w']):
                self.assertLess(x, 24, panel['title'])
                for y in range(place['y'], place['y'] + place['h']):
                    self.assertNotIn((x, y), taken, panel['title'])
                    taken[x, y] = panel['title']

    def test_ids_and_titles_are_told_apart(self):
        for word in ('id', 'title'):
            found = [panel[word] for panel in self.dashboard['panels']]
            self.assertEqual(sorted(set(found)), sorted(found))

    def test_each_says_what_it_shows_and_where_from(self):
        for panel in panels():
            self.assertTrue(panel['description'].endswith('.'))
            self.assertEqual('${datasource}', panel['datasource']['uid'])
            for target in panel['targets']:
                self.assertEqual('${datasource}', target['datasource']['uid'])
