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

"""What the unit tests have in common.

None of them starts a service of Nova's, or talks to libvirt.
"""

import logging

import fixtures
import hypothesis
from nova import objects
import nova.conf
from oslo_config import fixture as config_fixture
from oslotest import base

from nova_numa_guard import conf
from nova_numa_guard.scheduler import host_states

CONF = nova.conf.CONF

hypothesis.settings.register_profile(
    'unit',
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=100,
)
hypothesis.settings.load_profile('unit')

objects.register_all()
conf.register_opts(CONF)


class LogRecorder(fixtures.Fixture, logging.Handler):
    """What the guard's modules log."""

    def __init__(self):
        fixtures.Fixture.__init__(self)
        logging.Handler.__init__(self, logging.DEBUG)
        self.records = []

    def _setUp(self):
        logger = logging.getLogger('nova_numa_guard')
        level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        self.addCleanup(logger.setLevel, level)
        self.addCleanup(logger.removeHandler, self)

    def emit(self, record):
        self.records.append((record.levelname, record.getMessage()))

    def at(self, level):
        """The messages of one level."""
        return [text for name, text in self.records if name == level]


class TestCase(base.BaseTestCase):
    """Defaults in the configuration, no log lines, nothing cached."""

    def setUp(self):
        super().setUp()
        self.config = self.useFixture(config_fixture.Config(CONF))
        CONF([], default_config_files=[], default_config_dirs=[])
        self.log = self.useFixture(LogRecorder())
        host_states._REPORTS.forget()

    def flags(self, **options):
        """Set options of [numa_guard]."""
        self.config.config(group='numa_guard', **options)

    def raw(self, **options):
        """Read options of [numa_guard], as if from a file."""
        CONF([], default_config_files=[], default_config_dirs=[])
        self.config.load_raw_values('numa_guard', **options)

    def assert_logged(self, level, *messages):
        """The messages of a level are these, and no others."""
        self.assertEqual(list(messages), self.log.at(level))
