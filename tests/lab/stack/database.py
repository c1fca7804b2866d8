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

"""MariaDB, without a network port, and with as little care as possible."""

import dataclasses
import json
from typing import Any

import pymysql

from tests.lab.stack import layout, processes


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeNode:
    """What the cell's database says of a host.

    :param cells: the ids of its NUMA cells
    """

    cells: tuple[int, ...]
    failed_builds: int


def start(layout: layout.Layout, processes: processes.Processes) -> None:
    """Start it, and make the databases, all of them empty.

    :raises LabError: it does not start
    """
    common = [
        '--no-defaults',
        f'--datadir={layout.path("db")}',
        '--user=root',
    ]
    processes.run(
        'mariadb-install',
        [
            'mariadb-install-db',
            *common,
            '--auth-root-authentication-method=normal',
            '--skip-test-db',
            '--skip-name-resolve',
        ],
    )
    processes.start(
        'mariadb',
        [
            'mariadbd',
            *common,
            f'--socket={layout.database_socket}',
            '--skip-networking',
            '--max-connections=500',
            '--character-set-server=utf8mb4',
            # Nothing has to outlive the lab.
            '--innodb-buffer-pool-size=128M',
            '--innodb-doublewrite=0',
            '--innodb-flush-log-at-trx-commit=0',
        ],
    )
    processes.wait_for('mariadb', lambda: _create(layout))


def compute_node(where: layout.Layout, host: str) -> ComputeNode:
    """Nova's record of a host, of which no API shows all."""
    with _connect(where) as connection, connection.cursor() as cursor:
        cursor.execute(
            'SELECT numa_topology, stats FROM nova_cell1.compute_nodes '
            'WHERE host = %s AND deleted = 0',
            (host,),
        )
        ((topology, stats),) = cursor.fetchall()
    cells = _data(json.loads(topology))['cells']
    return ComputeNode(
        cells=tuple(_data(cell)['id'] for cell in cells),
        failed_builds=int(json.loads(stats).get('failed_builds', 0)),
    )


def _data(versioned_object: dict[str, Any]) -> dict[str, Any]:
    """What is in an object of Nova's."""
    found: dict[str, Any] = versioned_object['nova_object.data']
    return found


def _connect(where: layout.Layout) -> 'pymysql.Connection[Any]':
    return pymysql.connect(unix_socket=str(where.database_socket), user='root')


def _create(where: layout.Layout) -> bool:
    """Make the databases; False if MariaDB does not answer yet."""
    try:
        connection = _connect(where)
    except pymysql.OperationalError:
        return False
    with connection, connection.cursor() as cursor:
        for name in layout.DATABASES:
            cursor.execute(f'CREATE DATABASE IF NOT EXISTS {name}')
    return True
