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

"""A cloud in Nova's databases: hosts and flavors, without a service."""

import time

from nova import context as nova_context
from nova import objects, test
import nova.conf
from nova.db.main import api as main_db_api
from nova.db.main import models
from nova.pci import request as pci_request
from nova.virt import hardware
from oslo_utils import timeutils, uuidutils
import sqlalchemy

from nova_numa_guard import conf
from tests.unit import samples

CONF = nova.conf.CONF
conf.register_opts(CONF)


class FleetTestCase(test.TestCase):
    """Nova's databases, with one cell beside cell0."""

    def setUp(self):
        super().setUp()
        self.context = nova_context.get_admin_context()
        self.cell = self.cell_mappings['cell1']
        self.statements = []
        sqlalchemy.event.listen(
            sqlalchemy.engine.Engine, 'before_cursor_execute', self._record
        )
        self.addCleanup(
            sqlalchemy.event.remove,
            sqlalchemy.engine.Engine,
            'before_cursor_execute',
            self._record,
        )

    def _record(self, connection, cursor, statement, *args):
        self.statements.append(statement)

    def host(self, name, *cells, disabled=False, report=None, **values):
        """A compute host that has just reported.

        :param cells: of samples.host_cell()
        :param report: the guard's record, as text
        :param values: of samples.compute_node()
        """
        guests = values.pop('guests', 0)
        stats = {'num_instances': str(guests)}
        if report is not None:
            stats['numa_guard'] = report
        known = samples.compute_node(cells, stats=stats, **values)
        with nova_context.target_cell(self.context, self.cell) as cell:
            objects.Service(
                cell,
                host=name,
                binary='nova-compute',
                topic='compute',
                disabled=disabled,
                last_seen_up=timeutils.utcnow(),
            ).create()
            values = {
                field: getattr(known, field)
                for field in known.obj_what_changed()
            }
            values |= {
                'host': name,
                'hypervisor_hostname': name,
                'uuid': uuidutils.generate_uuid(),
            }
            for never_written in ('updated_at', 'metrics'):
                del values[never_written]
            node = objects.ComputeNode(cell, **values)
            node.create()
        objects.HostMapping(
            self.context, host=name, cell_mapping=self.cell
        ).create()

    def copies(self, name, count):
        """Make more hosts like one, at once.

        :param name: of a host that is there
        """
        with (
            nova_context.target_cell(self.context, self.cell) as cell,
            main_db_api.get_context_manager(cell).writer.using(cell),
        ):
            for model in (models.Service, models.ComputeNode):
                table = model.__table__
                query = sqlalchemy.select(table).where(table.c.host == name)
                [row] = cell.session.execute(query).mappings()
                rows = []
                for number in range(count):
                    new = f'{name}-{number:04}'
                    changed = {
                        'uuid': uuidutils.generate_uuid(),
                        'host': new,
                        'hypervisor_hostname': new,
                    }
                    rows.append(
                        {
                            column: changed.get(column, value)
                            for column, value in row.items()
                            if column != 'id'
                        }
                    )
                cell.session.execute(sqlalchemy.insert(table), rows)

    def flavor(self, name, memory=1024, vcpus=2, **specs):
        objects.Flavor(
            self.context,
            flavorid=name,
            name=name,
            memory_mb=memory,
            vcpus=vcpus,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            rxtx_factor=1.0,
            is_public=True,
            extra_specs={
                key.replace('__', ':'): value for key, value in specs.items()
            },
        ).create()

    def aggregate(self, name, *hosts, **metadata):
        found = objects.Aggregate(
            self.context,
            name=name,
            metadata={
                key.replace('__', ':'): value
                for key, value in metadata.items()
            },
        )
        found.create()
        for host in hosts:
            found.add_host(host)

    def timed(self, call):
        """What a call returns, its seconds, and its SQL statements."""
        del self.statements[:]
        start = time.monotonic()
        found = call()
        return found, time.monotonic() - start, list(self.statements)


def request_spec(context, flavor, uuid):
    """The request of a new server, as nova-api makes it."""
    image = objects.ImageMeta.from_dict({'properties': {}})
    return objects.RequestSpec.from_components(
        context,
        uuid,
        image,
        flavor,
        hardware.numa_get_constraints(flavor, image),
        pci_request.get_pci_requests_from_flavor(flavor),
        {},
        None,
        None,
        project_id='p',
        user_id='u',
    )
