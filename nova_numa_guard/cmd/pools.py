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

"""The command ``pools show``."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from nova_numa_guard import pools
from nova_numa_guard.cmd import base, errors


class Show(base.Lister):
    """Show the pages of each host NUMA node."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        try:
            found = pools.Kernel().pools()
        except pools.UnreadableError as exc:
            raise errors.CommandError(exc) from exc
        return ('Node', 'Page size', 'Total', 'Free'), [
            (each.node, each.page_size, each.total, each.free)
            for each in found
        ]
