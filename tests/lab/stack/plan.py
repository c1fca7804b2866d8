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

"""What a lab consists of.

A plan is a JSON file. Every part of it may be left out::

    {
        "pages": 128,
        "nova": {SECTION: {OPTION: VALUE}},
        "hosts": {
            NAME: {
                "options": {SECTION: {OPTION: VALUE}},
                "hugetlbfs_size": "64M",
                "cells": [{"mib": 2048}, {"mib": 2048}],
                "started": true
            }
        }
    }

``pages`` is the number of 2 MiB pages that the lab adds to the pool of host
NUMA node 0, which all of its hosts share. ``nova`` holds options of every
Nova service, ``options`` those of one host's nova-compute. A value that is a
list gives the option once for each of its elements. ``hugetlbfs_size`` bounds
what the guests of one host can take from the shared pool.

A host that has ``cells`` shows these instead of the machine's NUMA nodes, one
for each of the two CPUs that guests may use, with so much memory and no huge
page. They are pretended: guests whose memory is on the first one only can run.
A host that is not ``started`` with the lab is there for tests to start.
"""

import dataclasses
import json
import pathlib
from typing import Any

from tests.lab.stack import errors

Options = dict[str, dict[str, Any]]

FOLDER = pathlib.Path(__file__).resolve().parent.parent / 'plans'
DEFAULT = FOLDER / 'guard.json'


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A compute host.

    :param name: its host name, and the name of its nova-compute
    :param address: a loopback address of its own
    :param options: of its nova-compute
    :param hugetlbfs_size: as mount(8) takes it; empty for no limit
    :param cells: MiB of each pretended NUMA cell; empty for none
    :param started: whether it is started with the lab
    """

    name: str
    address: str
    options: Options
    hugetlbfs_size: str
    cells: tuple[int, ...]
    started: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A plan.

    :param pages: 2 MiB pages to add to the pool of node 0
    :param options: of every Nova service
    """

    pages: int
    options: Options
    hosts: tuple[Host, ...]

    def host(self, name: str) -> Host:
        """The host of a name.

        :raises LabError: there is none
        """
        for host in self.hosts:
            if host.name == name:
                return host
        raise errors.LabError(f'the plan has no host {name!r}')


def parse(text: str) -> Plan:
    """Read a plan.

    :raises LabError: this is not a plan
    """
    try:
        raw = json.loads(text)
        _known(raw, 'pages', 'nova', 'hosts')
        hosts = []
        for number, (name, host) in enumerate(raw.get('hosts', {}).items(), 1):
            _known(host, 'options', 'hugetlbfs_size', 'cells', 'started')
            cells = host.get('cells', [])
            for cell in cells:
                _known(cell, 'mib')
            hosts.append(
                Host(
                    name=name,
                    address=f'127.0.1.{number}',
                    options=host.get('options', {}),
                    hugetlbfs_size=host.get('hugetlbfs_size', ''),
                    cells=tuple(int(cell['mib']) for cell in cells),
                    started=bool(host.get('started', True)),
                )
            )
        return Plan(
            int(raw.get('pages', 0)), raw.get('nova', {}), tuple(hosts)
        )
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise errors.LabError(f'not a plan: {exc}') from exc


def merge(*layers: Options) -> Options:
    """Lay options over each other; the last one to name an option wins."""
    merged: Options = {}
    for layer in layers:
        for section, options in layer.items():
            merged[section] = {**merged.get(section, {}), **options}
    return merged


def _known(part: dict[str, Any], *keys: str) -> None:
    unknown = sorted(part.keys() - set(keys))
    if unknown:
        raise ValueError(f'unknown {", ".join(unknown)}')
