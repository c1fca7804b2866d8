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

"""Options of the metrics, which nova-compute alone reads."""

from oslo_config import cfg

OPTS: list[cfg.Opt] = [
    cfg.PortOpt(
        'metrics_port',
        default=0,
        help="""
The port on which nova-compute serves the guard's metrics to Prometheus.

They are plain HTTP, and whoever reaches the port may read them. If the port
cannot be had, nova-compute says so in one ERROR line and goes on without.

Possible values:

* A port number; 0 means that metrics are not served.

Related options:

* ``[numa_guard] metrics_address``
* ``[numa_guard] metrics_textfile``
* ``[numa_guard] accounting``, without which pools have no metrics
""",
    ),
    cfg.HostAddressOpt(
        'metrics_address',
        default='127.0.0.1',
        help="""
The address on which nova-compute serves the guard's metrics.

Possible values:

* An IPv4 or IPv6 address of this host, or a name that has one; ``0.0.0.0`` or
  ``::`` means all of its addresses.

Related options:

* ``[numa_guard] metrics_port``, without which it has no effect
""",
    ),
    cfg.StrOpt(
        'metrics_textfile',
        default='',
        regex=r'^(/.*\.prom)?$',
        help="""
A file for the guard's metrics, which nova-compute writes at each audit.

It is for the textfile collector of node_exporter, and is replaced as a whole.
The user of nova-compute has to be able to create files in its folder. The file
stays when nova-compute stops; ``node_textfile_mtime_seconds`` of node_exporter
tells how old it is.

Possible values:

* An absolute path that ends in ``.prom``; empty means that no file is written.

Related options:

* ``[numa_guard] metrics_port``
""",
    ),
]
