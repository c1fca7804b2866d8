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

"""Nova's own configuration, and its databases.

What is read through them is what nova-scheduler reads, so this is for a host
that has its configuration. Nothing is ever written.
"""

from collections.abc import Iterator, Sequence
import contextlib
from typing import Any

from nova import config as nova_config
from nova import context as nova_context
from nova import exception, objects
import nova.conf
from oslo_config import cfg
from oslo_db import exception as db_exception
import oslo_messaging
import sqlalchemy.exc

from nova_numa_guard import conf
from nova_numa_guard.cloud import errors

CONF = nova.conf.CONF

# As whom it is read, when nothing else is said.
SERVICE = 'nova-scheduler'
_CONFIG = f'Run this where {SERVICE} runs, or name its files (--config-file).'


def load(files: Sequence[str] = (), folders: Sequence[str] = ()) -> None:
    """Read a configuration, once for a process.

    :param files: and *folders*, of configuration files; without any of them,
        what nova-scheduler reads
    :raises CloudError: it cannot be read, or names no database
    """
    # Not every Nova has its parse_args() be told whose files they are.
    names = {'project': 'nova', 'prog': SERVICE}
    words = [
        *(
            f'--config-file={f}'
            for f in files or cfg.find_config_files(**names)
        ),
        *(
            f'--config-dir={d}'
            for d in folders or cfg.find_config_dirs(**names)
        ),
    ]
    conf.register_opts(CONF)
    try:
        # The addresses of cells are made of that of the message queue, which
        # is not spoken to.
        nova_config.parse_args([SERVICE, *words], configure_db=False)
        # Who asks is a person, who would wait for minutes.
        for group in ('database', 'api_database'):
            CONF.set_override('max_retries', 0, group)
            CONF.set_override('retry_interval', 1, group)
        if not CONF.api_database.connection:
            raise errors.CloudError(
                'The configuration has no [api_database] connection. '
                f'{_CONFIG}'
            )
        nova_config.main_db_api.configure(CONF)
        nova_config.api_db_api.configure(CONF)
    except (cfg.Error, oslo_messaging.MessagingException, ValueError) as exc:
        raise errors.CloudError(
            f'The configuration cannot be read: {exc}'
        ) from exc
    except SystemExit as exc:  # a word that oslo.config does not take
        raise errors.CloudError('The configuration cannot be read') from exc
    objects.register_all()


@contextlib.contextmanager
def reading() -> Iterator[Any]:
    """A context for reading Nova's objects.

    :returns: nova.context.RequestContext
    :raises CloudError: a database does not answer, or what is asked for is
        not there
    """
    try:
        yield nova_context.get_admin_context()
    except exception.CellMappingNotFound as exc:
        raise errors.CloudError(str(exc)) from exc
    except (
        db_exception.DBError,
        sqlalchemy.exc.SQLAlchemyError,
        exception.DBNotAllowed,
    ) as exc:
        reason = str(exc.__cause__ or exc).strip().split('\n')[0]
        raise errors.CloudError(
            f"Nova's database does not answer: {reason}. See [api_database] "
            f'connection, and that the database runs. {_CONFIG}'
        ) from exc
