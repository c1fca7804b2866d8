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

"""What the tests of dashboards and alerts have in common.

They need Debian's or Ubuntu's package ``prometheus``, and no Nova.
"""

import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import fixtures
from oslo_config import cfg
from oslo_serialization import jsonutils
import testtools
import yaml

from nova_numa_guard import conf, metrics, snapshot

ROOT = pathlib.Path(__file__).parents[2]
RULES = ROOT / 'etc' / 'nova-numa-guard' / 'prometheus-rules.yaml'
DASHBOARD = ROOT / 'etc' / 'nova-numa-guard' / 'grafana-dashboard.json'
JOB = 'nova-numa-guard'
GIB = 1024
# Whatever proxy the environment names.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class TestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.Timeout(120, gentle=True))


def rules():
    """Every alert of the file, by name."""
    [group] = yaml.safe_load(RULES.read_text())['groups']
    return {rule['alert']: rule for rule in group['rules']}


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def pool(node, total, free, configured, reserved, claimed, unaccounted):
    return snapshot.PoolFigures(
        *(node, 2048, total, free, configured, reserved, claimed),
        unaccounted=unaccounted,
    )


class Exporter(fixtures.Fixture):
    """The metrics of one nova-compute, on a port of its own."""

    def _setUp(self):
        options = cfg.ConfigOpts()
        conf.register_opts(options)
        options([])
        self.port = free_port()
        options.set_override('metrics_port', self.port, 'numa_guard')
        self.metrics = metrics.Metrics()
        self.metrics.start(options)
        self.addCleanup(self.metrics.stop)


class Prometheus(fixtures.Fixture):
    """A Prometheus that reads exporters each second.

    :param ports: of the exporters
    """

    def __init__(self, *ports):
        self._targets = [f'127.0.0.1:{port}' for port in ports]

    def _setUp(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        settings = folder / 'prometheus.yaml'
        settings.write_text(
            yaml.safe_dump(
                {
                    'global': {
                        'scrape_interval': '1s',
                        'evaluation_interval': '1s',
                    },
                    'rule_files': [str(RULES)],
                    'scrape_configs': [
                        {
                            'job_name': JOB,
                            'static_configs': [{'targets': self._targets}],
                        }
                    ],
                }
            )
        )
        self._address = f'127.0.0.1:{free_port()}'
        self._log = folder / 'log'
        with self._log.open('wb') as log:
            process = subprocess.Popen(
                (
                    'prometheus',
                    f'--config.file={settings}',
                    f'--storage.tsdb.path={folder / "data"}',
                    f'--web.listen-address={self._address}',
                ),
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, 'GOMAXPROCS': '1'},
            )
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)
        self.wait(self._is_ready, 'it is not ready')

    def _is_ready(self):
        try:
            with _OPENER.open(f'http://{self._address}/-/ready', timeout=10):
                return True
        except OSError:
            return False

    def get(self, what, **words):
        """What its HTTP API answers.

        :raises RuntimeError: an expression is wrong
        """
        text = urllib.parse.urlencode(words)
        url = f'http://{self._address}/api/v1/{what}?{text}'
        try:
            with _OPENER.open(url, timeout=10) as reply:
                return jsonutils.load(reply)['data']
        except urllib.error.HTTPError as exc:
            raise RuntimeError(f'{words}: {exc.read().decode()}') from exc

    def query(self, expression):
        """The values of an expression now, by their labels."""
        return {
            tuple(sorted(sample['metric'].items())): float(sample['value'][1])
            for sample in self.get('query', query=expression)['result']
        }

    def wait(self, condition, what, seconds=30):
        """Until the condition holds.

        :raises TimeoutError: it does not; with what Prometheus logged
        """
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError(f'{what}\n{self._log.read_text()}')
            time.sleep(0.2)
