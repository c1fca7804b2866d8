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

"""Guests that are to migrate to this host, live, and the page check.

Refused before anything of them is here, so that Nova tries another host.
"""

from collections.abc import Iterator
import contextlib
from typing import Any

from nova import exception

from nova_numa_guard.virt import answers, needs, page_check


class Incoming:
    """What a destination says to live migrations.

    :param check: of its pages
    """

    def __init__(self, check: page_check.PageCheck) -> None:
        self._check = check

    def rule_out(self, context: Any, instance: Any, host: str) -> None:
        """Refuse a guest for which no node has the pages.

        On which of them it is to be, only check() knows.

        :param host: the name of this compute host
        :raises nova.exception.MigrationPreCheckError: Nova tries another host
        """
        terms = self._check.terms(is_restart=False)
        if not terms.refuses:
            return
        needed = needs.huge_pages_of_cells(instance.numa_topology)
        if needed:
            with _precheck():
                self._check.rule_out(
                    instance, answers.Request(context, host, needed, terms)
                )

    def check(
        self, context: Any, instance: Any, claim: Any, host: str
    ) -> None:
        """Refuse a guest without its pages; else it is expected.

        It may be long in coming.

        :param claim: nova.compute.claims.MoveClaim; aborted if it is refused
        :param host: the name of this compute host
        :raises nova.exception.MigrationPreCheckError: Nova tries another host
        """
        terms = self._check.terms(is_restart=False)
        if terms.is_off:
            return
        needed = needs.pages(instance, claim.claimed_numa_topology)
        if not needed:
            return
        request = answers.Request(context, host, needed, terms)
        with _precheck():
            try:
                self._check.expect(instance, request, claim.migration.id)
            except exception.ComputeResourcesUnavailable:
                claim.abort()
                raise


@contextlib.contextmanager
def _precheck() -> Iterator[None]:
    try:
        yield
    except exception.ComputeResourcesUnavailable as exc:
        raise exception.MigrationPreCheckError(
            reason=exc.format_message()
        ) from exc
