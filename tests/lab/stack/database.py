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

import pymysql

from tests.lab.stack import layout, processes


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


def _create(where: layout.Layout) -> bool:
    """Make the databases; False if MariaDB does not answer yet."""
    try:
        connection = pymysql.connect(
            unix_socket=str(where.database_socket), user='root'
        )
    except pymysql.OperationalError:
        return False
    with connection, connection.cursor() as cursor:
        for name in layout.DATABASES:
            cursor.execute(f'CREATE DATABASE IF NOT EXISTS {name}')
    return True
